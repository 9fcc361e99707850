// The division of tiles between blocks, so that all have the same work.
//
// Of `tiles` tiles, each of `depth` iterations, a block first has whole ones, in as many rounds as
// leave at least a tile for each block. The iterations of the others stand in a row, tile by tile;
// each block has the same number of them, in order. So of the tiles that a block has a part of, the
// first may have been begun by the block before, and the last may be ended by those after.
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

template <class Index> struct Shares {
  Index block, blocks, depth;
  // Whole tiles of each block; iterations of each block behind them, and those of this one.
  Index rounds, each, begin, stop;

  TVMTUNE_FN Shares(Index block, Index blocks, Index tiles, Index depth)
      : block(block), blocks(blocks), depth(depth) {
    rounds = tiles / blocks > 1 ? tiles / blocks - 1 : 0;
    const Index all = (tiles - rounds * blocks) * depth;
    each = (all + blocks - 1) / blocks;
    begin = block * each < all ? block * each : all;
    stop = all - begin < each ? all : begin + each;
  }

  // The number of tiles that this block has, or has a part of.
  TVMTUNE_FN Index parts() const {
    return rounds + (begin < stop ? (stop - 1) / depth - begin / depth + 1 : 0);
  }

  // The tile of a part.
  TVMTUNE_FN Index tile(Index part) const {
    const Index whole = part < rounds ? part * blocks + block : rounds * blocks;
    return part < rounds ? whole : whole + begin / depth + part - rounds;
  }

  // The first iteration of a part, in its tile.
  TVMTUNE_FN Index first(Index part) const { return part == rounds ? begin % depth : 0; }

  // The iteration after the last one of a part, in its tile.
  TVMTUNE_FN Index end(Index part) const {
    return part >= rounds && part == parts() - 1 ? (stop - 1) % depth + 1 : depth;
  }

  // The last tile of this block.
  TVMTUNE_FN Index begun() const { return rounds * blocks + (stop - 1) / depth; }

  // The number of blocks with a part of that tile, if this one begins and does not end it; else 0.
  TVMTUNE_FN Index joined() const {
    if (begin >= stop) return 0;
    const Index from = (stop - 1) / depth * depth, to = from + depth;
    return begin <= from && stop < to ? (to - 1) / each - block + 1 : 0;
  }
};

}  // namespace tvmtune

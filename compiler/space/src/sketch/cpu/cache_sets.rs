//! Cache sets that the steps of a reduction share: elements a multiple of a page apart push each other out, so that
//! the next tile loads them again.

use super::register_tile::gcd;
use super::variant::TileVariant;
use crate::sketch::Builder;
use crate::sketch::layout::WORD_BYTES;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::poly::Poly;
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

const LINE_BYTES: u64 = 64;
/// Bytes of one way of a first-level cache that is indexed before translation.
const L1_WAY_BYTES: u64 = 4096;
/// Ways of a second-level cache, at least.
const L2_WAYS: u64 = 8;
/// Cycles of a line that comes from the second-level cache, and from beyond it, while others are in flight; the
/// first as for rows of a tile, the second chosen by measurement: a convolution with rows of 4,096 bytes.
const CYCLES_FROM_L2: f64 = 0.4;
const CYCLES_FROM_BEYOND: f64 = 5.0;

/// A cache with sets of lines.
struct Cache {
    way_bytes: u64,
    n_ways: u64,
}

impl Cache {
    /// Returns whether so many lines that far apart push each other out. Lines at any distance fill all sets.
    fn is_shared(&self, distance: u64, n_lines: u64) -> bool {
        let n_sets = self.way_bytes / gcd(distance, self.way_bytes).max(LINE_BYTES);
        // A quarter is left to the other operands, which pass through.
        n_lines > n_sets * self.n_ways * 3 / 4 && n_sets < self.way_bytes / LINE_BYTES
    }
}

/// Estimates the cycles in which tiles load the lines of an operand again, one element of which all lanes share, that
/// the steps of the reduction have pushed out of a cache, though all of them would fit it at other distances.
pub(super) fn reload_cycles(
    b: &Builder,
    anchor: StageId,
    variant: &TileVariant,
    access: &Access,
) -> f64 {
    let (n_spatial, extents, cpu) = (b.n_spatial(anchor), b.extents(anchor), b.cpu());
    let distance = |axis: usize| {
        let stride = access.strides[axis].as_ref()?.as_constant()?;
        Some(stride.unsigned_abs() * WORD_BYTES).filter(|it| *it >= LINE_BYTES)
    };
    let longest = (n_spatial..extents.len()).max_by_key(|it| extents[*it]);
    let Some((axis, distance)) = longest.and_then(|it| Some((it, distance(it)?))) else {
        return 0.0;
    };
    let (l1, l2) = (
        Cache { way_bytes: L1_WAY_BYTES, n_ways: (cpu.l1_bytes / L1_WAY_BYTES).max(1) },
        Cache { way_bytes: cpu.l2_bytes / L2_WAYS, n_ways: L2_WAYS },
    );
    let one = match extents[axis] {
        n if !l1.is_shared(distance, n) => return 0.0,
        n if l2.is_shared(distance, n) => CYCLES_FROM_BEYOND,
        _ => CYCLES_FROM_L2,
    };
    let rows = variant.tile.rows;
    // The lines of the elements of a tile's rows.
    let lines = |row: usize| match access.strides[row].as_ref().map(Poly::as_constant) {
        Some(Some(stride)) => {
            ((rows - 1) * stride.unsigned_abs() * WORD_BYTES / LINE_BYTES + 1).min(rows)
        }
        _ => rows,
    };
    let (n_elements, n_lines) = match variant.row.filter(|it| access.depends_on(*it)) {
        Some(row) => (rows, lines(row)),
        None => (1, 1),
    };
    let steps = extents[n_spatial..].iter().size() as f64;
    let elements_of_tile = rows * variant.tile.vectors * b.lanes();
    let n_tiles = extents[..n_spatial].iter().size() as f64 / elements_of_tile as f64;
    let loaded = n_tiles * steps * n_lines as f64;
    let loaded_once = access.footprint(&extents) as f64 * n_lines as f64 / n_elements as f64;
    one * (loaded - loaded_once).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_at_multiples_of_a_page_share_sets() {
        let cache = Cache { way_bytes: 4096, n_ways: 8 };
        assert!(cache.is_shared(4096, 7) && !cache.is_shared(4096, 6));
        assert!(cache.is_shared(3 * 4096, 64));
        // 16 sets.
        assert!(cache.is_shared(256, 97) && !cache.is_shared(256, 96));
        assert!(!cache.is_shared(4096 + 64, 400) && !cache.is_shared(64, 1 << 20));
    }
}

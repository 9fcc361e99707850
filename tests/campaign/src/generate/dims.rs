//! Dimensions of random programs: fixed, dynamic, and such as begin at another one.

use tvmtune_tuner::random::Random;

use super::scope::Extent;

/// A declared dimension.
#[derive(Clone, Debug)]
struct Dim {
    name: String,
    /// What stands behind the equals sign.
    declared: String,
    /// The extent, where it is known.
    fixed: Option<i64>,
    /// Upper ends of buckets, where it is dynamic.
    ends: Vec<i64>,
}

/// The dimensions of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Dims {
    dims: Vec<Dim>,
    /// Dimensions that begin at another one: their names, and which one.
    rooms: Vec<(Dim, usize)>,
}

/// Nothing begins at a dimension that may be larger: twice it would be no extent.
const MAX_BEGINNING: i64 = 1 << 24;

/// Ends of ranges: around vectors, tiles, and blocks.
const ENDS: [i64; 12] = [1, 2, 5, 7, 8, 9, 16, 17, 24, 31, 33, 40];

impl Dims {
    /// Draws one to four dimensions, and room for more than some.
    pub(super) fn new(random: &mut Random) -> Self {
        let mut dims = Self::default();
        let names = ["M", "N", "K", "T"];
        for name in &names[..1 + random.below(4)] {
            let dim = match random.chance(0.5) {
                true => fixed(name, random),
                false => dynamic(name, random),
            };
            dims.dims.push(dim);
        }
        for at in 0..dims.dims.len() {
            let has_room = dims.most(&Extent::Dim(at)) < MAX_BEGINNING;
            if dims.dims[at].fixed.is_none() && has_room && random.chance(0.3) {
                let name = &dims.dims[at].name;
                let lower = match random.below(3) {
                    0 => format!("{name} + {}", 1 + random.below(3)),
                    1 => format!("2 * {name}"),
                    _ => name.clone(),
                };
                let hi = dims.dims[at].ends.last().map_or(8, |it| it.saturating_mul(2) + 8);
                let hi = hi.min(i64::from(i32::MAX)).max(random.below(8192) as i64);
                let room = Dim {
                    name: format!("CAP{at}"),
                    declared: format!("{lower}..={hi}"),
                    fixed: None,
                    ends: Vec::new(),
                };
                dims.rooms.push((room, at));
            }
        }
        dims
    }

    /// The dynamic dimensions.
    pub(super) fn dynamic(&self) -> Vec<Extent> {
        let is_dynamic = |at: &usize| self.dims[*at].fixed.is_none();
        (0..self.dims.len()).filter(is_dynamic).map(Extent::Dim).collect()
    }

    /// Any extent of a parameter or result.
    pub(super) fn any(&self, random: &mut Random) -> Extent {
        match random.below(8) {
            0 => Extent::Constant([1, 2, 3, 4, 5, 8, 13, 16, 17][random.below(9)]),
            1 => Extent::Times(random.below(self.dims.len()), 2 + random.below(2) as i64),
            _ => Extent::Dim(random.below(self.dims.len())),
        }
    }

    /// The extent, or at times one that begins there.
    pub(super) fn with_room(&self, extent: Extent, random: &mut Random) -> Extent {
        let Extent::Dim(dim) = extent else { return extent };
        match self.rooms.iter().position(|it| it.1 == dim) {
            Some(room) if random.chance(0.5) => Extent::Room(room),
            _ => extent,
        }
    }

    /// The dimension that an extent is room for.
    pub(super) fn inside(&self, extent: Extent) -> Extent {
        match extent {
            Extent::Room(room) => Extent::Dim(self.rooms[room].1),
            other => other,
        }
    }

    /// The number that an extent is, where it is fixed.
    pub(super) fn fixed(&self, extent: &Extent) -> Option<i64> {
        match *extent {
            Extent::Dim(dim) => self.dims[dim].fixed,
            Extent::Times(dim, factor) => self.dims[dim].fixed.map(|it| it * factor),
            Extent::Constant(value) => Some(value),
            Extent::Room(_) => None,
        }
    }

    /// The greatest number that an extent may be.
    pub(super) fn most(&self, extent: &Extent) -> i64 {
        let most = |dim: usize| match self.dims[dim].fixed {
            Some(fixed) => fixed,
            None => self.dims[dim].ends.last().copied().unwrap_or(1),
        };
        match *extent {
            Extent::Dim(dim) => most(dim),
            Extent::Times(dim, factor) => most(dim).saturating_mul(factor),
            Extent::Constant(value) => value,
            Extent::Room(room) => most(self.rooms[room].1),
        }
    }

    /// An extent in a type.
    pub(super) fn text(&self, extent: &Extent) -> String {
        match *extent {
            Extent::Times(..) => format!("{{ {} }}", self.value(extent)),
            _ => self.value(extent),
        }
    }

    /// An extent in a range or an index.
    pub(super) fn value(&self, extent: &Extent) -> String {
        match *extent {
            Extent::Dim(dim) => self.dims[dim].name.clone(),
            Extent::Times(dim, factor) => format!("{} * {factor}", self.dims[dim].name),
            Extent::Constant(value) => value.to_string(),
            Extent::Room(room) => self.rooms[room].0.name.clone(),
        }
    }

    /// The declarations of those that a function mentions.
    pub(super) fn declared(&self, function: &str) -> Vec<String> {
        let rooms = self.rooms.iter().filter(|it| mentions(function, &it.0.name));
        let needed: Vec<usize> = rooms.clone().map(|it| it.1).collect();
        let used = |(at, it): &(usize, &Dim)| needed.contains(at) || mentions(function, &it.name);
        let dims = self.dims.iter().enumerate().filter(used).map(|it| it.1);
        let all = dims.chain(rooms.map(|it| &it.0));
        let texts: Vec<String> = all.map(|it| format!("{} = {}", it.name, it.declared)).collect();
        if texts.is_empty() { Vec::new() } else { vec![format!("dims({})", texts.join(", "))] }
    }

    /// Buckets of some of them.
    pub(super) fn buckets(&self, function: &str, random: &mut Random) -> Option<String> {
        let mut texts = Vec::new();
        for dim in self.dims.iter().filter(|it| it.ends.len() > 1) {
            if mentions(function, &dim.name) && random.chance(0.5) {
                let ends: Vec<String> = dim.ends.iter().map(i64::to_string).collect();
                texts.push(format!("{} = [{}]", dim.name, ends.join(", ")));
            }
        }
        (!texts.is_empty()).then(|| format!("buckets({})", texts.join(", ")))
    }
}

/// Returns whether a text has the name as a word.
fn mentions(text: &str, name: &str) -> bool {
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

fn fixed(name: &str, random: &mut Random) -> Dim {
    let extent = match random.below(10) {
        0 => 1,
        1 => 64,
        _ => 2 + random.below(24) as i64,
    };
    let declared = extent.to_string();
    Dim { name: name.to_owned(), declared, fixed: Some(extent), ends: Vec::new() }
}

fn dynamic(name: &str, random: &mut Random) -> Dim {
    let mut ends: Vec<i64> =
        (0..1 + random.below(4)).map(|_| ENDS[random.below(ENDS.len())]).collect();
    if random.chance(0.05) {
        // As far as extents go: nothing is launched there, but everything is planned.
        ends.push([100_000, 2_147_483_646, 2_147_483_647][random.below(3)]);
    }
    ends.sort_unstable();
    ends.dedup();
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let lo = if random.chance(0.8) { 1 } else { first };
    let declared = format!("{lo}..={last}");
    Dim { name: name.to_owned(), declared, fixed: None, ends }
}

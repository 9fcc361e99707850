//! Ensembles as files have them. Nothing that was read is believed: a tree that does not end, or a node that
//! does not exist, is an error.

use serde::{Deserialize, Serialize};

use super::ensemble::{Gbdt, MAX_TREES};
use super::tree::{MAX_NODES, Node, Tree};

/// An ensemble.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredGbdt {
    /// Numbers in a row.
    width: usize,
    trees: Vec<StoredTree>,
}

/// The nodes of a tree, column by column.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTree {
    /// The feature of each split; 0 for leaves.
    features: Vec<u16>,
    /// The threshold of each split, and the prediction of each leaf.
    numbers: Vec<f32>,
    /// The first of the two children of each split, which follow each other; 0 for leaves.
    children: Vec<u32>,
}

impl From<Gbdt> for StoredGbdt {
    fn from(Gbdt { width, trees }: Gbdt) -> Self {
        Self { width, trees: trees.iter().map(StoredTree::from).collect() }
    }
}

impl TryFrom<StoredGbdt> for Gbdt {
    type Error = &'static str;

    fn try_from(StoredGbdt { width, trees }: StoredGbdt) -> Result<Self, Self::Error> {
        if trees.len() > MAX_TREES {
            return Err("too many trees");
        }
        let trees: Result<Vec<Tree>, _> = trees.into_iter().map(|it| it.checked(width)).collect();
        Ok(Self { width, trees: trees? })
    }
}

impl From<&Tree> for StoredTree {
    fn from(tree: &Tree) -> Self {
        let row = |it: &Node| match *it {
            Node::Split { feature, threshold, left } => ((feature, threshold), left),
            Node::Leaf(value) => ((0, value), 0),
        };
        let (rows, children): (Vec<(u16, f32)>, Vec<u32>) = tree.nodes.iter().map(row).unzip();
        let (features, numbers) = rows.into_iter().unzip();
        Self { features, numbers, children }
    }
}

impl StoredTree {
    /// Returns the tree, if each of its nodes leads to later ones, and at last to a leaf.
    fn checked(self, width: usize) -> Result<Tree, &'static str> {
        let Self { features, numbers, children } = self;
        let n_nodes = features.len();
        if !(1..=MAX_NODES).contains(&n_nodes)
            || numbers.len() != n_nodes
            || children.len() != n_nodes
        {
            return Err("a tree with a wrong number of nodes");
        }
        let mut nodes = Vec::new();
        for (n, ((feature, number), left)) in
            features.into_iter().zip(numbers).zip(children).enumerate()
        {
            if !number.is_finite() || usize::from(feature) >= width {
                return Err("a tree with a number out of range");
            }
            nodes.push(match left as usize {
                0 => Node::Leaf(number),
                first if first > n && first + 1 < n_nodes => {
                    Node::Split { feature, threshold: number, left }
                }
                _ => return Err("a tree without an end"),
            });
        }
        Ok(Tree { nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Objective, Program};
    use super::*;

    fn trained() -> Gbdt {
        let rows: Vec<[f32; 3]> =
            (0..200_u8).map(|n| [f32::from(n % 7), f32::from(n % 5), f32::from(n) / 3.0]).collect();
        let label = |it: &[f32; 3]| f64::from(it[0] * it[1] + it[2].sin());
        let programs: Vec<Program<'_>> =
            rows.iter().map(|it| Program { rows: it, label: label(it), weight: 1.0 }).collect();
        Gbdt::train(&programs, 3, Objective::Mean, 1)
    }

    #[test]
    fn an_ensemble_survives_its_file() {
        let trained = trained();
        assert!(trained.n_trees() > 10);
        let text = serde_json::to_string(&trained).unwrap();
        assert_eq!(serde_json::from_str::<Gbdt>(&text).unwrap(), trained);
    }

    #[test]
    fn hostile_trees_are_refused() {
        let refused = |tree: &str| {
            let text = format!(r#"{{"width":2,"trees":[{tree}]}}"#);
            serde_json::from_str::<Gbdt>(&text).unwrap_err().to_string()
        };
        let good = r#"{"features":[1,0,0],"numbers":[0.5,1,2],"children":[1,0,0]}"#;
        let text = format!(r#"{{"width":2,"trees":[{good}]}}"#);
        let ensemble: Gbdt = serde_json::from_str(&text).unwrap();
        assert_eq!([ensemble.predict(&[9.0, 0.0]), ensemble.predict(&[0.0, 9.0])], [1.0, 2.0]);
        for (from, to, why) in [
            ("\"features\":[1", "\"features\":[2", "out of range"),
            ("0.5", "1e300", "out of range"),
            ("0.5", "null", "invalid type"),
            ("\"children\":[1", "\"children\":[2", "without an end"),
            ("\"children\":[1,0", "\"children\":[1,1", "without an end"),
            ("0.5,1,2", "0.5,1", "wrong number"),
        ] {
            let hostile = good.replacen(from, to, 1);
            assert_ne!(hostile, good);
            assert!(refused(&hostile).contains(why), "{hostile}: {}", refused(&hostile));
        }
        let empty = r#"{"features":[],"numbers":[],"children":[]}"#;
        assert!(refused(empty).contains("wrong number"));
    }
}

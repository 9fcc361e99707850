//! Strategies in sequence, each with a share of the proposals; all of them observe all outcomes.

use super::strategy::{Proposal, SearchContext, Strategy};

/// Asks each strategy in turn until it is exhausted or has used up its share of proposals, and then
/// all again without limits.
pub struct Chain {
    links: Vec<Link>,
}

struct Link {
    strategy: Box<dyn Strategy>,
    /// Proposals that remain of its share.
    left: usize,
}

impl Chain {
    /// Creates a chain of strategies, each with its maximum number of proposals.
    pub fn new(links: Vec<(Box<dyn Strategy>, usize)>) -> Self {
        Self { links: links.into_iter().map(|(strategy, left)| Link { strategy, left }).collect() }
    }
}

impl Strategy for Chain {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        // One strategy at a time: the next one first observes the outcomes of this one's proposals.
        for link in &mut self.links {
            if link.left == 0 {
                continue;
            }
            let proposals = link.strategy.propose(context, n.min(link.left));
            link.left -= proposals.len();
            if !proposals.is_empty() {
                return proposals;
            }
        }
        // All shares are used up: the first strategy that is not exhausted goes on.
        let mut rest = self.links.iter_mut().map(|it| it.strategy.propose(context, n));
        rest.find(|it| !it.is_empty()).unwrap_or_default()
    }

    fn parts(&mut self) -> Vec<&mut Box<dyn Strategy>> {
        self.links.iter_mut().map(|it| &mut it.strategy).collect()
    }
}

//! Templates: each schedules one kind of fusion group.

use super::builder::Builder;
use super::types::Result;

/// A way to schedule a kind of fusion group.
pub(super) struct Template<Group> {
    /// Returns whether the template is worth trying. A group that passes may still be refused by a
    /// primitive in `schedule`.
    pub(super) is_applicable: fn(&Builder, &Group) -> bool,
    /// Schedules the group, and [notes](Builder::note_template) the template.
    pub(super) schedule: fn(&mut Builder, &Group) -> Result<()>,
}

/// A template bound to a group that it is applicable to.
pub(super) type Bound<'a> = Box<dyn Fn(&mut Builder) -> Result<()> + 'a>;

/// Returns the applicable templates of a table, in its order.
pub(super) fn applicable<'a, Group>(
    table: &[Template<Group>],
    b: &Builder,
    group: &'a Group,
) -> Vec<Bound<'a>> {
    let bind = |template: &Template<Group>| -> Bound<'a> {
        let schedule = template.schedule;
        Box::new(move |b| schedule(b, group))
    };
    table.iter().filter(|it| (it.is_applicable)(b, group)).map(bind).collect()
}

//! Templates: each schedules one kind of fusion group.

use super::builder::Builder;
use tvmtune_schedule::error::ScheduleError;

/// A way to schedule a kind of fusion group.
pub(super) trait Template<Group> {
    /// Returns whether the template is worth trying. A group that passes may still be refused by a
    /// primitive in [`schedule`](Self::schedule).
    fn is_applicable(&self, b: &Builder, group: &Group) -> bool;

    /// Schedules the group, and [notes](Builder::note_template) the template.
    fn schedule(&self, b: &mut Builder, group: &Group) -> Result<(), ScheduleError>;
}

/// A template bound to a group that it is applicable to.
pub(super) type Bound<'a> = Box<dyn Fn(&mut Builder) -> Result<(), ScheduleError> + 'a>;

/// Returns the applicable templates of a table, in its order.
pub(super) fn applicable<'a, Group>(
    table: &'static [&'static dyn Template<Group>],
    b: &Builder,
    group: &'a Group,
) -> Vec<Bound<'a>> {
    let bind = |template: &&'static dyn Template<Group>| -> Bound<'a> {
        let template = *template;
        Box::new(move |b| template.schedule(b, group))
    };
    table.iter().filter(|it| it.is_applicable(b, group)).map(bind).collect()
}

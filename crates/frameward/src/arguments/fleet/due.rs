//! `fleet rotate --due`: CAKs by their schedule. And what `fleet plan` and `fleet status` say of it.

use std::collections::BTreeSet;

use fleet::{GatewayName, Kind, Span};
use inventory::{CutOff, Inventory, KeyFolder, Rendering, Renewal, Rotation, Rotations, State};

use super::keys::{Plant, failed, list};
use super::standing::{Versions, line};
use super::unix_seconds;
use crate::{Failure, print, tell, told};

/// Rotates what is due, and finishes what has begun.
pub(super) fn rotate(plant: &Plant<'_>) -> Result<(), Failure> {
    let _lock = plant.place.lock()?;
    let (rendering, keys) = plant.place.render()?;
    let inventory = plant.place.read()?;
    plant.signing.operator()?;
    let now = unix_seconds();
    let mut all = Ok(());
    let mut fail = |why: &dyn std::fmt::Display| all = Err(told(why, Failure::Failed));
    let Rotations { rotations, refused } = inventory.rotations(&keys, now);
    refused.iter().for_each(|why| fail(why));
    for rotation in rotations.iter().filter(|one| matches!(one.state, State::Ahead { .. })) {
        fail(&said(rotation, now).unwrap_or_default());
    }
    let of_revocations: BTreeSet<&str> =
        inventory.revoked().values().flat_map(|one| one.under_way(&keys)).collect();
    let (of_revocations, rotations): (Vec<_>, Vec<_>) =
        rotations.into_iter().partition(|one| of_revocations.contains(one.file.as_str()));
    for rotation in of_revocations {
        let groups = rotation.groups.join(", ");
        fail(&format_args!(
            "{groups}: a gateway was revoked, and the old CAK stays until that is finished: frameward fleet revoke NAME --finish"
        ));
    }
    let begun = rotations.iter().filter(|one| matches!(one.state, State::UnderWay { .. }));
    let due = rotations.iter().filter(|one| matches!(one.state, State::Due { .. }));
    let (mut begun, due): (Vec<_>, Vec<_>) = (begun.collect(), due.collect());
    let (was_cut_off, known) = goes_on(plant, &rendering, &keys)?;
    if begun.is_empty() && due.is_empty() && !was_cut_off {
        print(&"no CAK is due\n")?;
        return all;
    }
    for rotation in due {
        match hindrance(plant, rotation, (&inventory, &rendering, &keys))? {
            Some(why) => fail(&format_args!("{}: {why}", rotation.groups.join(", "))),
            None => begun.push(rotation),
        }
    }
    if begun.is_empty() && !was_cut_off {
        return all;
    }
    plant.begins(&begun.iter().flat_map(|rotation| rotation.groups.clone()).collect::<Vec<_>>())?;
    write_down(&keys, &known)?;
    for rotation in &begun {
        keys.renew(&rotation.file, Renewal::Overlapping).map_err(|error| failed(&error))?;
        let groups = rotation.groups.join(", ");
        let word = keys.word(&rotation.file);
        print(&format_args!("{groups}: a new {word} begins, and the old one stays beside it\n"))?;
    }
    let published = plant.publish_over(&known)?;
    let open = finish(plant, &begun, &rendering, &published)?;
    keys.was_not_cut_off().map_err(|error| failed(&cut_off(&keys, &error)))?;
    for (rotation, members) in open {
        fail(&format_args!(
            "{}: the old CAK stays until {} have confirmed; the same command goes on",
            rotation.groups.join(", "),
            list(&members)
        ));
    }
    all
}

/// Whether a command before was cut off, so that this one goes on where it was; and the versions that the directory has now. Fails if
/// something else would go along with new keys.
fn goes_on(plant: &Plant<'_>, rendering: &Rendering, keys: &KeyFolder) -> Result<(bool, CutOff), Failure> {
    let before = keys.cut_off().map_err(|error| failed(&cut_off(keys, &error)))?;
    plant.is_rendered(rendering, keys, before.is_some())?;
    if before.is_none() {
        plant.is_applied()?;
    }
    // One look, in which all is as it is known: what is published from here on goes over that alone.
    match plant.signing.versions(plant.to, before.as_ref())? {
        Ok(versions) => Ok((before.is_some(), versions)),
        Err(others) if before.is_none() => Err(failed(&format_args!(
            "somebody else publishes for {}; look at it, and run the same command again",
            others.join(", ")
        ))),
        Err(others) => Err(failed(&format_args!(
            "somebody else has published for {} since this command was cut off; look at it, apply what is right, and remove {}",
            others.join(", "),
            keys.cut_off_file().display()
        ))),
    }
}

/// Why what is due cannot begin yet.
fn hindrance(
    plant: &Plant<'_>,
    rotation: &Rotation,
    (inventory, rendering, keys): (&Inventory, &Rendering, &KeyFolder),
) -> Result<Option<String>, Failure> {
    if let Some(why) = inventory.hindrance(&rotation.file, rendering, keys, None) {
        return Ok(Some(why));
    }
    let now = unix_seconds();
    let standings = plant.signing.standings(&members(rotation, rendering))?;
    let other = standings.iter().find(|(_, standing)| !standing.is_confirmed() || !standing.is_heard(now));
    Ok(other.map(|(name, standing)| {
        format!(
            "a new CAK is due, and waits until all its gateways confirm; {name}: {}; or rotate it by hand: frameward fleet rotate {}",
            line(standing, now),
            rotation.groups.join(" or ")
        )
    }))
}

/// Ends the old CAKs that nobody needs any more. The others, with the gateways that need them.
fn finish<'r>(
    plant: &Plant<'_>,
    begun: &[&'r Rotation],
    rendering: &Rendering,
    published: &Versions,
) -> Result<Vec<(&'r Rotation, Vec<GatewayName>)>, Failure> {
    let all: BTreeSet<GatewayName> = begun.iter().flat_map(|one| members(one, rendering)).collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let all: Vec<_> = all.into_iter().collect();
    let mut open = plant.unconfirmed(&all, published)?;
    // Somebody else may have published something else meanwhile.
    let unpublished = plant.signing.unpublished(plant.to, Kind::Configuration)?;
    open.extend(unpublished.iter().filter_map(|name| GatewayName::new(name)));
    let known = published.iter().map(|(name, version)| (name.to_string(), *version)).collect();
    let (mut left, mut is_finished) = (Vec::new(), false);
    let (_, keys) = plant.place.render()?;
    for rotation in begun {
        let waits = members(rotation, rendering).into_iter().filter(|name| open.contains(name));
        let waits: Vec<_> = waits.collect();
        if !waits.is_empty() {
            left.push((*rotation, waits));
            continue;
        }
        if !is_finished {
            write_down(&keys, &known)?;
        }
        is_finished = true;
        keys.finish(&rotation.file).map_err(|error| failed(&error))?;
        let word = keys.word(&rotation.file);
        print(&format_args!("{}: the old {word} ends\n", rotation.groups.join(", ")))?;
    }
    if is_finished {
        plant.publish_over(&known)?;
    }
    Ok(left)
}

/// Writes down what is in the directory, so that a command that is cut off goes on and puts nothing over what others have published.
fn write_down(keys: &KeyFolder, known: &CutOff) -> Result<(), Failure> {
    keys.may_be_cut_off(known).map_err(|error| failed(&cut_off(keys, &error)))
}

fn cut_off(keys: &KeyFolder, error: &std::io::Error) -> String {
    format!("{}: {error}", keys.cut_off_file().display())
}

fn members(rotation: &Rotation, rendering: &Rendering) -> Vec<GatewayName> {
    rotation.members(rendering).into_iter().filter_map(GatewayName::new).collect()
}

/// Tells what is due, what was begun, and what cannot have a schedule.
pub(super) fn tell_due(inventory: &Inventory, keys: &KeyFolder) -> Result<(), Failure> {
    let now = unix_seconds();
    print(&lines(&inventory.rotations(keys, now), now))
}

/// The same as lines.
pub(super) fn lines(Rotations { rotations, refused }: &Rotations, now: u64) -> String {
    refused.iter().for_each(|why| tell(why));
    rotations.iter().filter_map(|rotation| said(rotation, now)).map(|line| line + "\n").collect()
}

/// A rotation that somebody has to know of.
fn said(rotation: &Rotation, now: u64) -> Option<String> {
    let groups = rotation.groups.join(", ");
    let since = |since: u64| Span(now.saturating_sub(since));
    Some(match rotation.state {
        State::Later { .. } => return None,
        State::UnderWay { since: Some(made) } => format!(
            "{groups}: a new CAK has begun {} ago, and was not confirmed by all; the old one stays beside it",
            since(made)
        ),
        State::UnderWay { since: None } => {
            format!(
                "{groups}: a new CAK has begun, and was not confirmed by all; the old one stays beside it"
            )
        }
        State::Due { since: Some(due) } => {
            format!("{groups}: a new CAK is due since {} ago: frameward fleet rotate --due", since(due))
        }
        State::Due { since: None } => format!(
            "{groups}: a new CAK is due, as {} does not say when it was made: frameward fleet rotate --due",
            rotation.file
        ),
        State::Ahead { made } => format!(
            "{groups}: its CAK was made {} from now by this clock, so it is not rotated; set the clock, or if it is right: frameward fleet rotate {}",
            Span(made - now),
            rotation.groups.join(" or ")
        ),
    })
}

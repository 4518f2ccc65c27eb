//! The place of a process in a distributed job, told from what its launcher left in the environment.

use super::Rank;

/// A launcher's variables: rank, local rank, number of ranks.
struct Launcher(&'static str, Option<&'static str>, Option<&'static str>);

/// In the order of trust. SLURM comes last: under `srun torchrun` its number is that of the launcher on each machine, not
/// the rank.
const LAUNCHERS: &[Launcher] = &[
    Launcher("RANK", Some("LOCAL_RANK"), Some("WORLD_SIZE")),
    Launcher(
        "OMPI_COMM_WORLD_RANK",
        Some("OMPI_COMM_WORLD_LOCAL_RANK"),
        Some("OMPI_COMM_WORLD_SIZE"),
    ),
    Launcher("PMIX_RANK", None, None),
    Launcher("PMI_RANK", None, Some("PMI_SIZE")),
    Launcher("MV2_COMM_WORLD_RANK", Some("MV2_COMM_WORLD_LOCAL_RANK"), Some("MV2_COMM_WORLD_SIZE")),
    Launcher("SLURM_PROCID", Some("SLURM_LOCALID"), Some("SLURM_NTASKS")),
];

/// The rank, where a launcher says one. `CENOTE_RANK` overrules the number; the rest is still the launcher's.
///
/// Call it when the report is written, not when the library is loaded: Python sets `RANK` in processes that it starts
/// after that.
pub fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<Rank> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let launcher = LAUNCHERS.iter().find_map(|&Launcher(rank, local, world)| {
        let global = number(rank)?;
        let (local, world) = (local.and_then(number), world.and_then(number));
        Some(Rank { global, local, world, source: rank.to_owned() })
    });
    match number("CENOTE_RANK") {
        Some(global) => {
            let (local, world) = launcher.map_or((None, None), |rank| (rank.local, rank.world));
            Some(Rank { global, local, world, source: "CENOTE_RANK".to_owned() })
        }
        None => launcher,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of(variables: &[(&str, &str)]) -> Option<(u32, Option<u32>, String)> {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        rank(get).map(|rank| (rank.global, rank.local, rank.source))
    }

    #[test]
    fn the_innermost_launcher_counts() {
        assert_eq!(rank_of(&[]), None);
        assert_eq!(rank_of(&[("RANK", "first")]), None);
        assert_eq!(
            rank_of(&[("SLURM_PROCID", "1"), ("RANK", "9"), ("LOCAL_RANK", "1")]),
            Some((9, Some(1), "RANK".to_owned())),
        );
        assert_eq!(
            rank_of(&[("CENOTE_RANK", "5"), ("SLURM_PROCID", "1"), ("SLURM_LOCALID", "0")]),
            Some((5, Some(0), "CENOTE_RANK".to_owned())),
        );
    }
}

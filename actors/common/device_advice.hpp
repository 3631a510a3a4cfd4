// Where a job computes best (what `--device auto` chooses): on CUDA devices, or on the processor if a step is too small
// for them; and whether its steps can be device graphs.

#pragma once

#include <optional>
#include <string>

#include "actors/common/compute_devices.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "nn/module.hpp"

namespace troupe::actors {

/// A CUDA device is worth it from this many multiplications in a trainer's step (`step_multiplications`).
///
/// A device waits in every step for its kernels' launches and for the host, however small the step is;
/// the processor does not. Measured on an H100: Adult with its defaults, about 2.6 * 10^6, ran 574 steps/s on the
/// device and 2,303 on the processor; batches of 1,024 for the network 512,256 and a table of width 64 with bags of 26,
/// about 5 * 10^8, were faster on the device. The limit is halfway between, in powers of ten.
constexpr double device_multiplications = 1 << 25;

/// Returns approximately how many multiplications a trainer's step takes: for each sample one forward and two backward
/// for each dense weight, and one for each number of the rows in its bags. Requires: `check_network` accepts the job.
double step_multiplications(const model::job& what, const model::data_spec& spec);

/// Returns a program's addition to the network, the losses or the dense optimizers that computes only on the processor,
/// or nothing.
std::optional<std::string> only_on_processor(const model::job& what, const nn::module& network);

/// Returns where a job on data of these shapes computes best: on devices if a step takes at least
/// `device_multiplications`, or if only devices multiply in the job's precision. Depends only on settings that a
/// resumed run shares with the run before, except for the precision. Requires: `check_network` accepts the job.
device_advice advice_for(const model::job& what, const model::data_spec& spec);

/// Derives the data's shapes from the job alone (`model::spec_of`). Gives no advice if only the data's file contains
/// the shapes.
device_advice advice_for(const model::job& what);

/// Returns why a job's steps cannot each be a CUDA graph, and what to do about it; nothing if they can. Graphs need one
/// trainer whose tables are all on its device, and steps in which the host needs no numbers.
std::optional<std::string> fault_of_step_graphs(const model::job& what, const model::data_spec& spec,
                                                const compute_devices& devices);

}  // namespace troupe::actors

// In which order a stage of a pipeline passes the micro-batches of a batch.

#pragma once

#include <cstdint>

namespace troupe {

/// `gpipe`: all forward, then all back. `one_f_one_b`: as many forward as there are stages from it on, then one back
/// and one forward in turn; so that stage s of P keeps the activations of P - s micro-batches at most. `pipedream`: as
/// `one_f_one_b` with whole batches, each an optimizer step, between which the pipeline is not emptied: stage s passes
/// a batch both ways with the weights of P - s steps before, and keeps a version of them for each of P - s batches at
/// most.
enum class pipeline_schedule : std::uint8_t { gpipe, one_f_one_b, pipedream };

}  // namespace troupe

// The order in which a pipeline stage passes the micro-batches of a batch.

#pragma once

#include <cstdint>

namespace troupe {

/// `gpipe`: all forward, then all back. `one_f_one_b`: as many forward as there are stages from this one on, then one
/// back and one forward in turn, so that stage s of P keeps the activations of at most P - s micro-batches.
/// `pipedream`: as `one_f_one_b` with whole batches, each an optimizer step; the pipeline is not drained in between.
/// Stage s passes a batch both ways with the weights of P - s steps before, and keeps a version of them for each of at
/// most P - s batches.
enum class pipeline_schedule : std::uint8_t { gpipe, one_f_one_b, pipedream };

}  // namespace troupe

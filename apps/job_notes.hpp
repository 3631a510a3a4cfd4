// What users are told about a job before it runs.

#pragma once

#include "apps/train_options.hpp"
#include "launch/console.hpp"
#include "model/data.hpp"

namespace troupe::apps {

/// Tells how much memory a large run takes on this machine.
void tell_memory(const train_order& order, const model::dataset& data, console& out);

/// Tells how long the stages of a pipeline with few micro-batches have nothing to do.
void tell_bubble(const model::job& what, console& out);

/// Tells what a user should know of the data's files.
void tell_of_files(const model::dataset& data, console& out);

}  // namespace troupe::apps

#include "apps/job_notes.hpp"

#include <fmt/format.h>

#include "actors/host_memory.hpp"
#include "launch/attempt.hpp"
#include "model/memory.hpp"
#include "model/stages.hpp"

namespace troupe::apps {

void tell_memory(const train_order& order, const model::dataset& data, console& out) {
  const std::size_t ahead = actors::batches_made_ahead(order.machine.batch_threads, order.what.trainers);
  const auto need = actors::need_on_host(order.what, data.spec(), order.machine.devices, ahead);
  const auto available = static_cast<double>(model::available_memory());
  if (const auto much = actors::describe(need, order.what, available)) out.note(*much);
}

void tell_bubble(const model::job& what, console& out) {
  if (what.micro_batches >= what.pipeline || what.streams()) return;
  out.note(fmt::format(
      "--micro-batches {}: fewer than the {} stages, so stages of equal length have nothing to do for {:.0f} % of a "
      "step; more take less",
      what.micro_batches, what.pipeline, 100 * model::bubble_of(what.pipeline, what.micro_batches)));
}

void tell_of_files(const model::dataset& data, console& out) {
  const attempt* mine = attempt::mine();
  if (mine != nullptr && mine->before().number > 1) return;  // the first attempt has told it
  for (const std::string& line : data.notes()) out.note(line);
}

}  // namespace troupe::apps

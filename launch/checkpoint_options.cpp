#include "launch/checkpoint_options.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/number.hpp"
#include "base/text.hpp"
#include "launch/option_table.hpp"
#include "launch/text.hpp"
#include "model/checkpoint/store.hpp"

namespace troupe::launch {

result<checkpoint_order> read_checkpoint_options(const std::vector<model::setting>& given) {
  checkpoint_order order;
  order.save = option_text(given, "save");
  if (const auto every = option_text(given, "checkpoint-every")) {
    constexpr std::uint64_t steps_max = 1'000'000'000'000;
    const auto steps = parse_number<std::uint64_t>(*every);
    if (!steps || *steps == 0 || *steps > steps_max)
      return bad_input("--checkpoint-every {}: must be a whole number between 1 and {}", printable(*every), steps_max);
    if (!order.save)
      return bad_input("--checkpoint-every {}: needs --save DIR, the folder for the checkpoints", *steps);
    order.every = *steps;
  }
  if (const auto folder = option_text(given, "resume")) {
    auto found = model::newest_whole_checkpoint(*folder);
    if (!found) return bad_input("{}", about_folder("--resume", *folder, found.error().message));
    order.resume = std::move(*found);
  }
  return order;
}

result<actors::run_checkpoints> open_checkpoints(const checkpoint_order& order) {
  actors::run_checkpoints made;
  made.every = order.every;
  if (order.resume) made.from = std::make_shared<const model::checkpoint>(order.resume->what);
  if (!order.save) return made;
  auto store = model::checkpoint_store::open(*order.save, order.resume ? &*order.resume : nullptr);
  if (!store)
    return tl::unexpected<fault>(fault{store.error().kind, about_folder("--save", *order.save, store.error().message)});
  made.store = std::make_shared<model::checkpoint_store>(std::move(*store));
  return made;
}

std::string resume_advice(const checkpoint_order& order, const std::string& command) {
  if (!order.save) return "nothing was saved (--save DIR), so start anew";
  const std::string folder = shell_word(*order.save);
  const std::string every = order.every > 0 ? fmt::format(" --checkpoint-every {}", order.every) : "";
  return fmt::format("go on from the last checkpoint: {} --resume {} --save {}{}", command, folder, folder, every);
}

}  // namespace troupe::launch

#include "cluster/launch/checkpoint_options.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/number.hpp"
#include "base/text.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/text.hpp"
#include "model/arithmetic.hpp"
#include "model/checkpoint/store.hpp"
#include "protocol/server_messages.hpp"

namespace troupe::launch {

namespace {

constexpr const char* lock_name = "lock";
constexpr std::uint64_t seconds_max = 1'000'000'000;

/// Reads a positive number of seconds.
result<double> read_seconds(std::string_view name, const std::string& text, std::string_view else_words) {
  const auto seconds = parse_number<double>(text);
  if (seconds && *seconds > 0 && *seconds <= static_cast<double>(seconds_max)) return *seconds;
  return bad_input("--{} {}: must be a number of seconds above 0 and up to {}{}", name, printable(text), seconds_max,
                   else_words);
}

/// Reads the options for saving checkpoints by time.
result<void> read_times(const std::vector<model::setting>& given, checkpoint_order& order) {
  if (const auto text = option_text(given, "checkpoint-seconds")) {
    order.how.automatic = *text == "auto";
    if (!order.how.automatic) TROUPE_SET(order.how.seconds, read_seconds("checkpoint-seconds", *text, ", or auto"));
    if (!order.save)
      return bad_input("--checkpoint-seconds {}: needs --save DIR, the folder for the checkpoints", printable(*text));
  }
  if (const auto text = option_text(given, "mtbf")) {
    TROUPE_SET(order.how.mtbf, read_seconds("mtbf", *text, ""));
    if (!order.how.automatic) return bad_input("--mtbf {}: is for --checkpoint-seconds auto", printable(*text));
  }
  return {};
}

/// A later attempt resumes from the checkpoints of earlier ones.
std::optional<std::string> folder_to_resume(const std::vector<model::setting>& given, const checkpoint_order& order) {
  const attempt* mine = attempt::mine();
  if (mine != nullptr && mine->before().number > 1 && order.save)
    if (const auto steps = model::checkpoint_steps(*order.save); steps && !steps->empty()) return order.save;
  return option_text(given, "resume");
}

}  // namespace

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
    order.how.every = *steps;
  }
  if (const auto text = option_text(given, "checkpoint-memory")) {
    const auto bytes = parse_number<std::uint64_t>(*text);
    if (!bytes || *bytes == msg::any_memory)
      return bad_input("--checkpoint-memory {}: must be a whole number of bytes between 0 and {}", printable(*text),
                       msg::any_memory - 1);
    if (!order.save)
      return bad_input("--checkpoint-memory {}: needs --save DIR, the folder for the checkpoints", *bytes);
    order.how.memory = *bytes;
  }
  TROUPE_DO(read_times(given, order));
  if (const auto folder = folder_to_resume(given, order)) {
    auto found = model::newest_whole_checkpoint(*folder);
    if (!found) return bad_input("{}", about_folder("--resume", *folder, found.error().message));
    if (auto differs = model::other_arithmetic(found->what.manifest.arithmetic, model::arithmetic_here()))
      found->warnings.push_back("--resume: " + *differs);
    order.resume = std::move(*found);
    model::remember_files(order.resume->what);
    order.how.from = std::make_shared<const model::checkpoint>(order.resume->what);
  }
  return order;
}

result<actors::run_checkpoints> open_checkpoints(const checkpoint_order& order) {
  actors::run_checkpoints made = order.how;
  if (!order.save) return made;
  attempt* mine = attempt::mine();
  const int lock = mine == nullptr ? -1 : mine->kept(lock_name);
  auto store = model::checkpoint_store::open(*order.save, order.resume ? &*order.resume : nullptr, lock);
  if (!store)
    return tl::unexpected<fault>(fault{store.error().kind, about_folder("--save", *order.save, store.error().message)});
  if (mine != nullptr && lock < 0) mine->keep(lock_name, store->lock_descriptor());
  made.store = std::make_shared<model::checkpoint_store>(std::move(*store));
  return made;
}

std::string resume_advice(const checkpoint_order& order, const std::string& command) {
  if (!order.save) return "nothing was saved (--save DIR), so start anew";
  const std::string folder = shell_word(*order.save);
  std::string when = order.how.every > 0 ? fmt::format(" --checkpoint-every {}", order.how.every) : "";
  if (order.how.seconds > 0) when += fmt::format(" --checkpoint-seconds {}", order.how.seconds);
  if (order.how.automatic) when += " --checkpoint-seconds auto";
  if (order.how.memory != msg::any_memory) when += fmt::format(" --checkpoint-memory {}", order.how.memory);
  if (order.how.mtbf > 0) when += fmt::format(" --mtbf {}", order.how.mtbf);
  return fmt::format("continue from the last checkpoint: {} --resume {} --save {}{}", command, folder, folder, when);
}

}  // namespace troupe::launch

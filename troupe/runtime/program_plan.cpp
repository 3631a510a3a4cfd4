#include "troupe/runtime/program_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "actors/common/failure.hpp"
#include "model/checkpoint/resume.hpp"
#include "model/checkpoint/tensors.hpp"

namespace troupe::runtime {

namespace {

caf::expected<msg::tensor> read(const model::checkpoint& from, const model::tensor_declaration& what) {
  if (!is_tensor_type(what.type))
    return actors::make_failure(actors::errc::bad_input, "--resume: {} is of a strange type", what.name);
  std::uint64_t count = 1;
  for (const std::uint64_t length : what.shape) count *= length;
  std::vector<std::byte> bytes(count * size_of(what.type));
  if (auto done = model::read_dense(from, what.name, bytes); !done)
    return actors::make_failure(actors::errc::bad_input, done.error().message);
  return msg::tensor(what.type, count, 1, msg::blob::own(std::move(bytes)));
}

/// Returns the rank that a tensor of a checkpoint belongs to, as in `rank1.loops`; null if it belongs to all.
std::optional<std::uint32_t> owner_of(const std::string& name, std::uint32_t trainers) {
  for (std::uint32_t rank = 0; rank < trainers; ++rank)
    if (name.starts_with(fmt::format("rank{}.", rank))) return rank;
  return std::nullopt;
}

/// Describes how the run of the checkpoint differs from this one, and what to do about it; null if it does not.
std::optional<std::string> difference(std::span<const model::setting> saved, std::span<const model::setting> now,
                                      std::span<const std::string> own, std::span<const std::string> free_on_resume) {
  const std::vector<std::string_view> free(free_on_resume.begin(), free_on_resume.end());
  const auto name = model::first_differing(saved, now, free);
  if (!name) return std::nullopt;
  std::string text = model::first_difference(saved, now, free).value();
  if (std::ranges::find(own, *name) != own.end())
    text += fmt::format(
        "; if --{} decides nothing of what has been computed, let the program say so: "
        "option(\"{}\", ...).may_change_on_resume()",
        *name, *name);
  return text;
}

caf::error resume(actors::run_plan& plan, std::span<const std::string> own,
                  std::span<const std::string> free_on_resume) {
  const model::checkpoint& from = *plan.checkpoints.from;
  const model::checkpoint_manifest& saved = from.manifest;
  if (auto differs = difference(saved.settings, plan.settings, own, free_on_resume))
    return actors::make_failure(actors::errc::bad_input, std::move(*differs));
  plan.steps_done = saved.step;
  if (saved.step == 0) return {};
  if (saved.tables.size() != plan.tables.all.size())
    return actors::make_failure(actors::errc::bad_input, "--resume: the program has {} tables, the checkpoint {}",
                                plan.tables.all.size(), saved.tables.size());
  std::vector<std::uint64_t>& server_steps = plan.tables.server_steps;
  server_steps.resize(plan.servers);
  for (actors::trainer_start& one : plan.starts) one.position.steps_done = saved.step;
  for (const model::tensor_declaration& what : saved.dense) {
    auto numbers = read(from, what);
    if (!numbers) return numbers.error();
    const auto owner = owner_of(what.name, plan.trainers);
    if (owner && what.name.ends_with(".server_steps"))
      for (std::uint32_t server = 0; server < std::min<std::size_t>(plan.servers, numbers->rows); ++server)
        server_steps[server] =
            std::max(server_steps[server], static_cast<std::uint64_t>(numbers->as<std::int64_t>()[server]));
    for (std::uint32_t rank = 0; rank < plan.trainers; ++rank) {
      if (owner && *owner != rank) continue;
      plan.starts[rank].names.push_back({what.name, what.shape});
      plan.starts[rank].position.dense.push_back(*numbers);
    }
  }
  // As in `table_clients::resume`.
  for (const actors::planned_table& table : plan.tables.all) {
    std::uint64_t most = 0;
    for (const std::uint32_t server : table.servers) most = std::max(most, server_steps[server]);
    for (const std::uint32_t server : table.servers)
      if (server_steps[server] == 0) server_steps[server] = most;
  }
  return {};
}

}  // namespace

actors::planner plan_program(actors::run_plan plan, std::vector<std::string> own,
                             std::vector<std::string> free_on_resume) {
  plan.starts.resize(plan.trainers);
  return [plan = std::move(plan), own = std::move(own), free_on_resume = std::move(free_on_resume)](
             const msg::run&, const actors::run_checkpoints& checkpoints) -> caf::expected<actors::run_plan> {
    actors::run_plan made = plan;
    made.checkpoints = checkpoints;
    if (checkpoints.from)
      if (auto wrong = resume(made, own, free_on_resume)) return wrong;
    return made;
  };
}

}  // namespace troupe::runtime

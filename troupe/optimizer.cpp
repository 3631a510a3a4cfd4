#include "troupe/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/optimizer.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

sgd::operator optimizer_choice() const {
  std::string name = fmt::format("sgd:momentum={},weight_decay={}", momentum, weight_decay);
  if (nesterov) name += ",nesterov=true";
  return {std::move(name), lr};
}

adagrad::operator optimizer_choice() const {
  return {fmt::format("adagrad:weight_decay={},initial_accumulator_value={},eps={}", weight_decay,
                      initial_accumulator_value, eps),
          lr};
}

adam::operator optimizer_choice() const {
  return {fmt::format("adam:beta1={},beta2={},eps={},weight_decay={}", beta1, beta2, eps, weight_decay), lr};
}

namespace {

/// For errors: a member on a server; empty: it is a replica.
std::string words_of(const runtime::trained& member) {
  if (const auto* table = std::get_if<std::shared_ptr<const runtime::remote_table>>(&member))
    return (*table)->reference()->words();
  const auto* module = std::get_if<std::shared_ptr<const runtime::reference>>(&member);
  return module != nullptr ? (*module)->words() : "";
}

}  // namespace

void distributed_optimizer::add_members(const optimizer_choice& choice, const std::vector<runtime::trained>& members) {
  if (!std::isfinite(choice.lr) || choice.lr < 0)
    throw error(error_kind::input, fmt::format("{}: lr {}: must be a number of 0 or more", choice.name, choice.lr));
  std::vector<runtime::trained> all = members_;
  for (const runtime::trained& one : members) {
    if (std::visit([](const auto& what) { return what == nullptr; }, one))
      throw error(error_kind::input, "distributed_optimizer: a handle of no module");
    if (std::ranges::find(all, one) != all.end() && !words_of(one).empty())
      throw error(error_kind::input,
                  fmt::format("distributed_optimizer: {} is there twice; name each member once", words_of(one)));
    all.push_back(one);
    const bool is_table = std::holds_alternative<std::shared_ptr<const runtime::remote_table>>(one);
    const auto use = is_table ? model::optimizer_use::table : model::optimizer_use::dense;
    if (const auto parsed = model::parse_optimizer(choice.name, use); !parsed)
      throw error(error_kind::input, parsed.error().message);
  }
  runtime::trainer_runtime::current().set_optimizer(choice, members);
  members_ = std::move(all);
}

future<> distributed_optimizer::step(context& with) const {
  return with.tape().owner().take_step(with.tape(), members_);
}

}  // namespace troupe

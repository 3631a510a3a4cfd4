#include "troupe/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"
#include "model/optimizer.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

namespace {

/// Describes a member on a server, for errors; empty for a replica.
std::string description_of(const runtime::trained& member) {
  if (const auto* table = std::get_if<std::shared_ptr<const runtime::remote_table>>(&member))
    return (*table)->reference()->description();
  const auto* module = std::get_if<std::shared_ptr<const runtime::reference>>(&member);
  return module != nullptr ? (*module)->description() : "";
}

/// Returns the chosen optimizer for this kind of parameters. Throws `error` if the choice is invalid.
model::optimizer_spec optimizer_of(const optimizer_choice& choice, model::optimizer_use use) {
  model::optimizer_spec spec;
  if (const auto* of_sgd = std::get_if<sgd>(&choice.options)) {
    spec.options = model::sgd_options{of_sgd->momentum, of_sgd->weight_decay, of_sgd->nesterov};
  } else if (const auto* of_adagrad = std::get_if<adagrad>(&choice.options)) {
    spec.options =
        model::adagrad_options{of_adagrad->eps, of_adagrad->initial_accumulator_value, of_adagrad->weight_decay};
  } else if (const auto* of_adam = std::get_if<adam>(&choice.options)) {
    spec.options = model::adam_options{of_adam->beta1, of_adam->beta2, of_adam->eps, of_adam->weight_decay};
  } else {
    auto parsed = model::parse_optimizer(choice.name, use);
    if (!parsed) throw error(error_kind::input, parsed.error().message);
    spec = std::move(*parsed);
  }
  if (const auto wrong = model::check_options(spec)) throw error(error_kind::input, *wrong);
  spec.lr = choice.lr;
  auto schedule = model::parse_lr_schedule(choice.lr_schedule);
  if (!schedule)
    throw error(error_kind::input, fmt::format("{}: lr_schedule {}: {}", choice.name, printable(choice.lr_schedule),
                                               schedule.error().message));
  spec.schedule = std::move(*schedule);
  return spec;
}

}  // namespace

void distributed_optimizer::add_members(const optimizer_choice& choice, const std::vector<runtime::trained>& members) {
  if (!std::isfinite(choice.lr) || choice.lr < 0)
    throw error(error_kind::input, fmt::format("{}: lr {}: must be a number of 0 or more", choice.name, choice.lr));
  std::vector<runtime::trained> all = members_;
  for (const runtime::trained& one : members) {
    if (std::visit([](const auto& what) { return what == nullptr; }, one))
      throw error(error_kind::input, "distributed_optimizer: a handle of no module");
    if (std::ranges::find(all, one) != all.end() && !description_of(one).empty())
      throw error(error_kind::input,
                  fmt::format("distributed_optimizer: {} is there twice; name each member once", description_of(one)));
    all.push_back(one);
  }
  using table = std::shared_ptr<const runtime::remote_table>;
  const bool is_for_tables =
      std::ranges::all_of(members, [](const auto& one) { return std::holds_alternative<table>(one); });
  const auto spec = optimizer_of(choice, is_for_tables ? model::optimizer_use::table : model::optimizer_use::dense);
  if (spec.as<model::rowwise_adagrad_options>() != nullptr)
    for (const runtime::trained& one : members)
      if (const auto* of = std::get_if<table>(&one); of != nullptr && (*of)->split() == model::table_split::columns)
        throw error(error_kind::input,
                    fmt::format("{}: needs whole rows, which table_split::columns of {} cuts; use adagrad, or rows",
                                choice.name, description_of(one)));
  const std::string schedule = choice.lr_schedule == "constant" ? "" : " and lr_schedule " + choice.lr_schedule;
  auto text = std::make_shared<runtime::optimizer_text>(text_ ? *text_ : runtime::optimizer_text());
  runtime::add_text(*text, members, fmt::format("{} with lr {}{}", model::full_text(spec), choice.lr, schedule));
  const bool has_options = choice.options.index() > 0;
  runtime::trainer_runtime::current().set_optimizer(spec, has_options ? model::full_text(spec) : choice.name, members);
  members_ = std::move(all);
  text_ = std::move(text);
}

future<> distributed_optimizer::step(context& with, source_location at) const {
  if (text_ == nullptr) throw error(error_kind::input, "an optimizer step of an optimizer that has been moved away");
  with.tape().owner().communicator().set_place(at);
  return with.tape().owner().take_step(with.tape(), members_, *text_);
}

}  // namespace troupe

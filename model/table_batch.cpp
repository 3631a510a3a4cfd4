#include "model/table_batch.hpp"

#include <algorithm>
#include <utility>

namespace troupe::model {

std::shared_ptr<const table_batch::lookup> table_batch::begin(lookup wanted) {
  auto made = std::make_shared<lookup>(std::move(wanted));
  begun_.push_back(made);
  return made;
}

void table_batch::look_up() {
  std::vector<std::shared_ptr<lookup>> all;
  for (const auto& one : std::exchange(begun_, {}))
    if (auto wanted = one.lock()) all.push_back(std::move(wanted));
  if (all.empty()) return;
  std::vector<kernels::bag_pass> passes;
  const auto width_of = [](const auto& one) { return std::pair(one->dim, one->type); };
  std::ranges::stable_sort(all, {}, width_of);
  timer_.begin(names_.pool);
  for (auto first = all.begin(); first != all.end();) {
    passes.clear();
    auto next = first;
    for (; next != all.end() && width_of(*next) == width_of(*first); ++next) passes.push_back((*next)->pass);
    on_->embedding_bags_forward((*first)->dim, (*first)->type, passes);
    first = next;
  }
  timer_.end();
  if (std::ranges::any_of(all, [](const auto& one) { return one->then != nullptr; })) {
    const kernels::stream_timer::scope scope(timer_, names_.copy);
    for (const auto& one : all)
      if (one->then) one->then();
  }
  const std::shared_ptr<const kernels::event> done = on_->record();
  for (const auto& one : all) one->done = done;
}

bool table_batch::width::takes(const shape& table, std::size_t more) const {
  return of.dim == table.dim && of.type == table.type && of.every_row == table.every_row &&
         steps.size() < kernels::gradient_tables_max && indices + more <= kernels::step_indices_max;
}

void table_batch::begin_step() {
  ++step_;
  stage_ = stage::collecting;
  for (width& one : widths_) {
    one.gradient->clear();
    one.of.rows = 0;
    one.first_rows.clear();
    one.steps.clear();
    one.indices = 0;
    one.norms_scale.reset();
  }
}

table_batch::place table_batch::join(const shape& of, std::size_t indices, const place& last) {
  if (stage_ != stage::collecting || is_in_step(last)) begin_step();
  auto to = std::ranges::find_if(widths_, [&](const width& one) { return one.takes(of, indices); });
  if (to == widths_.end()) {
    to = widths_.emplace(to);
    to->of = {0, of.dim, of.type, of.every_row};
    to->gradient = on_->make_table_gradient();
    to->gradient->clear();
  }
  to->first_rows.push_back(to->of.rows);
  to->of.rows += of.rows;
  to->steps.emplace_back();
  to->indices += indices;
  return {step_, static_cast<std::size_t>(to - widths_.begin()), to->gradient->add_table(of.rows)};
}

void table_batch::group() {
  if (stage_ != stage::collecting) return;
  stage_ = stage::grouped;
  const kernels::stream_timer::scope scope(timer_, names_.group);
  for (width& one : widths_)
    if (!one.steps.empty()) one.gradient->group();
}

std::span<const double> table_batch::norms(const place& at, float scale) {
  if (!is_in_step(at)) return {};
  group();
  width& of = widths_[at.width];
  if (of.norms_scale != scale) of.norms = of.gradient->norms_by_table(of.of.dim, scale);
  of.norms_scale = scale;
  return of.norms[at.table];
}

void table_batch::set(const place& at, const kernels::table_step& step) {
  if (is_in_step(at)) widths_[at.width].steps[at.table] = step;
}

void table_batch::apply() {
  group();
  stage_ = stage::applied;
  const kernels::stream_timer::scope scope(timer_, names_.update);
  for (width& one : widths_)
    if (!one.steps.empty()) one.gradient->apply(one.of.dim, one.of.type, one.steps, one.of.every_row);
  applied_step& last = next_applied();
  last.step = step_;
  if (!on_->device().is_host()) last.done = on_->record();
  last.bad_rows.clear();
  last.first_rows.resize(widths_.size());
  for (std::size_t i = 0; i < widths_.size(); ++i) last.first_rows[i] = widths_[i].first_rows;
}

/// Returns the entry for the step being applied, after the others: a new one, or if there are `applies_max`, the oldest
/// one, after its result is known. On the processor there is a single entry.
table_batch::applied_step& table_batch::next_applied() {
  if (on_->device().is_host()) return applied_.empty() ? applied_.emplace_back() : applied_.front();
  if (applied_.size() < kernels::applies_max) return applied_.emplace_back();
  know(applied_.front());
  applied_.push_back(std::move(applied_.front()));
  applied_.pop_front();
  return applied_.back();
}

/// Waits for a step, and reads its bad rows. Requires: those of earlier steps are known.
void table_batch::know(applied_step& one) {
  if (!one.bad_rows.empty()) return;
  if (one.done && !one.done->is_over()) one.done->wait();
  for (std::size_t i = 0; i < one.first_rows.size(); ++i)
    one.bad_rows.push_back(one.first_rows[i].empty() ? -1 : widths_[i].gradient->bad_row());
}

std::int64_t table_batch::bad_row(const place& at) {
  launch(at);
  for (applied_step& one : applied_) {
    if (one.step > at.step) break;
    know(one);
    if (one.step < at.step) continue;
    const std::vector<std::int64_t>& firsts = one.first_rows[at.width];
    const std::int64_t bad = one.bad_rows[at.width];
    const auto next = std::ranges::upper_bound(firsts, bad);
    const bool is_of_table = static_cast<std::size_t>(next - firsts.begin()) == at.table + 1;
    return is_of_table ? bad - firsts[at.table] : -1;
  }
  return -1;
}

void table_batch::leave(const place& at) noexcept {
  set(at, {});
  if (is_in_step(at) && stage_ == stage::collecting) stage_ = stage::done;
  try {
    on_->synchronize();
  } catch (const kernels::device_error&) {
    // The next use of the device reports the error.
  }
}

}  // namespace troupe::model

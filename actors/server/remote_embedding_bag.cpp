#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "actors/common/device_tensor.hpp"
#include "actors/common/failure.hpp"
#include "actors/server/arriving_rows.hpp"
#include "actors/server/bag_cache.hpp"
#include "actors/server/embedding_bag_arguments.hpp"
#include "actors/server/kept_table.hpp"
#include "actors/server/remote_module.hpp"
#include "actors/server/row_codec.hpp"
#include "actors/server/table_entries.hpp"
#include "base/host_memory.hpp"
#include "kernels/bulk_copy.hpp"
#include "kernels/device.hpp"
#include "model/embedding_bag.hpp"

namespace troupe::actors {
namespace {

class remote_embedding_bag final : public remote_module {
 public:
  /// `where`: a device, or the batch that the table joins. `lookups_max`: the most lookups whose gradients may still
  /// arrive.
  template <class Where>
  remote_embedding_bag(const model::embedding_bag_options& options, model::sparse_reduction reduce, Where&& where,
                       std::uint64_t lookups_max)
      : looked_up_(lookups_max), reduce_(reduce), table_(options, std::forward<Where>(where)) {}
  ~remote_embedding_bag() override {
    if (const auto kept = in_use()) kept->drop();
  }
  remote_embedding_bag(const remote_embedding_bag&) = delete;

  caf::error set_optimizer(const msg::set_optimizer& chosen) override {
    const auto optimizer = optimizer_of(chosen, model::optimizer_use::table);
    if (!optimizer) return optimizer.error();
    const model::optimizer_spec& now = table_.options().optimizer;
    if (is_chosen_ && *optimizer != now) return other_optimizer(description(), chosen, now);
    if (is_chosen_) return {};
    if (auto wrong = check_state_place(table_.options(), *optimizer, table_.stream().device())) return wrong;
    is_chosen_ = true;
    if (const auto kept = in_use()) kept->drop();
    table_.set_optimizer(*optimizer);
    return restored_ ? restore_state(chosen.optimizer) : caf::error();
  }

  caf::error expect(const msg::bag_lookup& wanted) override {
    if (is_on_host()) return {};
    if (auto error = check_lookup(wanted)) return error;
    looked_up_.put(table_.stream(), wanted);
    return {};
  }

  caf::expected<lookup_future> lookup(const msg::bag_lookup& wanted, kernels::row_dtype type) override {
    if (auto error = check_lookup(wanted)) return error;
    const kernels::bags_view bags = view_of(wanted);
    const std::size_t count = bags.offsets.empty() ? bags.indices.size() : bags.size();
    if (!is_on_host()) return lookup_on_device(wanted, count, type);
    msg::tensor_buffer out(count, table_.dim());
    table_.forward(bags, out.data());
    msg::tensor found =
        type == kernels::row_dtype::f32 ? std::move(out).freeze() : encode_rows(out.data(), count, table_.dim(), type);
    return lookup_future([found] { return found; });
  }

  bool runs_on_any_thread() const override { return is_on_host(); }

  caf::error check(const msg::bag_gradient& grad) const override {
    const kernels::bags_view bags = view_of(grad);
    if (auto error = looked_up_.has(grad) ? caf::error() : check_view(bags)) return error;
    const std::size_t expected_rows = bags.offsets.empty() ? bags.indices.size() : bags.size();
    if (grad.grad.bytes.device() != nullptr && &block_of(grad.grad.bytes)->device() != &table_.stream().device())
      return make_failure(errc::wrong_context, "{}: a gradient on a device that the table is not on", description());
    if (!kernels::is_row_dtype(grad.grad.type) || grad.grad.rows != expected_rows || grad.grad.cols != table_.dim() ||
        !grad.grad.consistent())
      return make_failure(
          errc::shape_mismatch, "{}: gradient [{}, {}] of {}, expected [{}, {}] of float32, float16 or bfloat16",
          description(), grad.grad.rows, grad.grad.cols, name_of(grad.grad.type), expected_rows, table_.dim());
    return {};
  }

  caf::error collect(std::span<const msg::bag_gradient* const> grads, contributors from) override {
    contributions_.clear();
    decoded_.clear();
    looked_up_.free_taken();  // taken by a step that was left out
    std::uint64_t indices = 0;
    uploads_.resize(std::max(uploads_.size(), grads.size()));
    for (const msg::bag_gradient* grad : grads) {
      upload& buffers = uploads_[contributions_.size()];
      contributions_.push_back({bags_on_table(*grad, buffers.bags), on_table(grad->grad, buffers.grad)});
      indices += contributions_.back().bags.indices.size();
    }
    if (indices > kernels::step_indices_max)
      return make_failure(errc::bad_input,
                          "{}: {} indices in an optimizer step: must be at most {}; use smaller batches "
                          "(--batch-size, --accumulate) or fewer trainers",
                          description(), indices, kernels::step_indices_max);
    table_.collect(contributions_);
    // The mean over a trainer's batches, and the mean or sum over the trainers.
    const auto parts = static_cast<float>(reduce_ == model::sparse_reduction::mean ? 1 : from.trainers);
    scale_ = from.batches > 0 ? parts / static_cast<float>(from.batches) : 1.0F;
    return {};
  }

  model::exact_sum squared_norm() override { return table_.squared_norm(scale_); }

  void apply(std::uint64_t update, float factor) override { table_.apply(update, scale_ * factor); }

  bool finishes_later() const override { return !is_on_host(); }
  void launch() override {
    table_.launch();
    looked_up_.free_taken();
  }
  caf::error finish() override {
    if (auto bad = table_.bad_row())
      return make_failure(errc::not_finite, "{}: the gradient of row {} is NaN or Inf", description(),
                          table_.whole_row(*bad));
    return {};
  }

  std::vector<msg::parameter_info> parameters() const override {
    return {{"weight", table_.options().dtype, static_cast<std::uint64_t>(table_.rows()), table_.dim()}};
  }

  msg::state_entries state_dict(state_parts which) override {
    msg::state_entries entries;
    for (const table_array& own : arrays()) {
      if (which == state_parts::weights && !entries.empty()) break;  // the first array holds the weights
      entries.emplace_back(own.name, msg::tensor(own.type, static_cast<std::uint64_t>(table_.rows()), own.columns,
                                                 msg::blob::own(copy_of(own.bytes))));
    }
    return entries;
  }

  std::string state_owner() const override {
    return model::state_buffers(table_.options().optimizer) == 0 ? "" : model::rule_of(table_.options().optimizer);
  }

  caf::error check_state_dict(const msg::state_entries& entries) override {
    return check_entries(entries, arrays(), table_);
  }

  caf::error load_state_dict(const msg::state_entries& entries) override {
    const auto own = arrays();
    if (auto wrong = check_entries(entries, own, table_)) return wrong;
    if (const auto kept = in_use(); kept && !kept->let_all_change()) kept->drop();
    for (const auto& [name, numbers] : entries) {
      const table_array& to = *std::ranges::find(own, name, &table_array::name);
      overwrite(to.bytes, [&, &numbers = numbers](std::span<std::byte> bytes) {
        if (numbers.type == to.type)
          std::ranges::copy(numbers.bytes.as<std::byte>(), bytes.begin());
        else
          kernels::encode(numbers.rows * numbers.cols, numbers.as<float>().data(),
                          {bytes.data(), table_.options().dtype});
      });
    }
    return {};
  }

  caf::expected<saved> save(const std::string& folder) override { return begin_save(folder)(); }

  void keep(const std::shared_ptr<model::memory_allowance>& memory) override {
    kept_ =
        std::make_shared<kept_table>(table_.options().table, table_.options().shard, arrays(), table_.stream(), memory);
    in_use_ = kept_;
    has_gone_ = kept_->has_gone();
  }

  bool make_way() override {
    const auto kept = in_use();
    if (!kept) return true;
    if (model::visits_every_row(table_.options().optimizer)) return kept->let_all_change();
    return std::ranges::all_of(contributions_, [&](const auto& one) { return kept->let_change(one.bags.indices); });
  }

  void forget() override { kept_.reset(); }

  std::function<caf::expected<saved>()> begin_save(const std::string& folder) override {
    if (!kept_) keep(std::make_shared<model::memory_allowance>(std::numeric_limits<std::uint64_t>::max()));
    const auto write = [kept = std::exchange(kept_, nullptr), folder] { return kept->write(folder); };
    if (!in_use_.lock()->is_written_here()) return write;
    return [made = write()] { return made; };
  }

  caf::error restore(const model::checkpoint& from) override {
    if (const auto kept = in_use()) kept->drop();
    restored_ = from;
    return restore_from(arrays());
  }
  bool is_restored() const override { return restored_.has_value(); }

  caf::expected<msg::tensor> row_digests(std::uint64_t first, std::uint64_t count) const override {
    return digests_of_rows(table_, first, count);
  }
  std::string description() const override { return model::description_of(table_.options()); }

 private:
  /// Returns the kept table, or null if no other thread reads it any more.
  std::shared_ptr<kept_table> in_use() const {
    auto kept = in_use_.lock();
    // A weak pointer that has expired does not order the other thread's reads before this thread's writes.
    if (!kept && has_gone_) has_gone_->wait(false);
    return kept;
  }
  bool is_on_host() const { return table_.stream().device().is_host(); }

  /// Looks up rows on the table's device, together with all lookups of its batch, when the first of them is awaited.
  /// Pooled rows go to the offered columns if those are on this device, otherwise to the host.
  lookup_future lookup_on_device(const msg::bag_lookup& wanted, std::size_t count, kernels::row_dtype type) {
    const std::size_t dim = table_.dim();
    kernels::stream& on = table_.stream();
    if (!begun_.expired()) table_.look_up();  // putting further bags may release its bags
    const kernels::bags_view bags = looked_up_.put(on, wanted);
    const device_destination* const destination = columns_of(wanted.destination);
    if (destination != nullptr && destination->what.where == &on.device() && type == kernels::row_dtype::f32) {
      const auto begun = table_.begin(bags, destination->what.numbers);
      begun_ = begun;
      return [this, begun, what = destination->what] {
        table_.look_up();
        return on_device(what, begun->done);
      };
    }
    const auto rows = std::make_shared<arriving_rows>();
    rows->there.resize(on, count * dim);
    const std::size_t bytes = count * dim * sizeof(float);
    rows->here = on.device().allocate_staging(bytes);
    rows->begun =
        table_.begin(bags, {rows->there.data(), dim},
                     [&on, from = rows->there.data(), to = rows->here.get(), bytes] { on.download(from, to, bytes); });
    begun_ = rows->begun;
    return [this, rows, count, dim, type, bytes]() -> msg::tensor {
      table_.look_up();
      rows->wait();
      const auto* numbers = reinterpret_cast<const float*>(rows->here.get());
      if (type != kernels::row_dtype::f32) return encode_rows(numbers, count, dim, type);
      return {dtype::f32, count, dim, msg::blob(std::shared_ptr<const void>(rows->here), numbers, bytes)};
    };
  }

  caf::error check_lookup(const msg::bag_lookup& wanted) const {
    if (auto error = check_destination(wanted)) return error;
    if (looked_up_.has(wanted)) return {};
    const kernels::bags_view bags = view_of(wanted);
    if (auto error = check_view(bags)) return error;
    if (!bags.offsets.empty() && table_.options().mode == kernels::pooling::max)
      return make_failure(errc::bad_input, "tables of mode max are pooled by the trainer, from their rows");
    return {};
  }

  caf::error check_destination(const msg::bag_lookup& wanted) const {
    const device_destination* const destination = columns_of(wanted.destination);
    const std::size_t bags = view_of(wanted).size();
    if (destination == nullptr ||
        (bags > 0 && destination->what.rows == bags && destination->what.cols == table_.dim()))
      return {};
    return make_failure(errc::shape_mismatch, "{}: room for [{}, {}] pooled rows, expected [{}, {}]", description(),
                        destination->what.rows, destination->what.cols, bags, table_.dim());
  }

  /// Returns a gradient's bags on the table's device: those that their lookup has left there, unless they came in other
  /// memory.
  kernels::bags_view bags_on_table(const msg::bag_gradient& grad, kernels::uploaded_bags& buffer) {
    if (is_on_host()) return view_of(grad);
    if (const auto known = looked_up_.take(grad)) return *known;
    return put_bags(buffer, table_.stream(), grad);
  }

  /// Returns a gradient's numbers on the table's device. Numbers from the host are uploaded into `buffer`.
  kernels::row_matrix<const float> on_table(const msg::tensor& grad, kernels::uploaded_array<float>& buffer) {
    if (const device_block* where = block_of(grad.bytes)) {
      table_.stream().wait(where->written());
      return where->numbers();
    }
    return {buffer.put(table_.stream(), {floats_of(grad), grad.rows * grad.cols}), grad.cols};
  }

  std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
    std::vector<std::byte> copy;
    const auto here = kernels::on_host(table_.stream(), bytes.data(), bytes.size(), copy);
    if (copy.empty()) copy.assign(here.begin(), here.end());
    return copy;
  }

  /// Calls `write` with the new contents of the table's memory `bytes`; on a device, with a copy that is then uploaded.
  void overwrite(std::span<std::byte> bytes, const auto& write) {
    if (is_on_host()) return write(bytes);
    const auto copy = allocate_on_host(bytes.size());
    write(std::span(copy.get(), bytes.size()));
    kernels::upload_bulk(table_.stream(), copy.get(), bytes.data(), bytes.size());
  }

  /// Returns a gradient's numbers; those of 16 bits are decoded, and kept until the next `collect`.
  const float* floats_of(const msg::tensor& grad) {
    if (grad.type == dtype::f32) return grad.as<float>().data();
    decoded_.emplace_back(grad.rows, grad.cols);
    decode_rows(grad, decoded_.back().data());
    return decoded_.back().data();
  }

  caf::error check_view(const kernels::bags_view& bags) const {
    const auto& options = table_.options();
    kernels::bags_view checked = bags;
    const std::int64_t whole = 0;
    if (bags.offsets.empty() && !bags.indices.empty()) checked.offsets = {&whole, 1};
    const auto fault = kernels::check_bags(checked, table_.rows());
    switch (fault.what) {
      case kernels::bags_fault::kind::none:
        return {};
      case kernels::bags_fault::kind::index:
        return make_failure(errc::bad_index, "{}, sample {}: index {} is outside [0, {}) of shard {} of {}",
                            description(), fault.bag, fault.value, table_.rows(), options.shard.index,
                            options.shard.count);
      case kernels::bags_fault::kind::offset:
        return make_failure(errc::bad_index,
                            "{}, sample {}: offset {} must start at 0, not descend and not exceed the {} indices",
                            description(), fault.bag, fault.value, bags.indices.size());
      case kernels::bags_fault::kind::weights:
        return make_failure(errc::bad_index, "{}: {} per-sample weights for {} indices", description(),
                            bags.weights.size(), bags.indices.size());
    }
    return {};
  }

  caf::error restore_from(const std::vector<table_array>& parts) {
    for (const table_array& own : parts) {
      result<void> read;
      overwrite(own.bytes, [&](std::span<std::byte> bytes) {
        read = model::read_table(*restored_, table_.options().table, own.name, table_.options().shard, bytes);
      });
      if (!read) return make_failure(errc::bad_input, read.error().message);
    }
    return {};
  }

  /// Reads the state of an optimizer that was chosen after `restore`.
  caf::error restore_state(const std::string& optimizer) {
    const std::size_t table = table_.options().table;
    std::vector<table_array> parts = arrays();
    if (const auto& before = restored_->manifest.tables[table].parts; before.size() != parts.size())
      return make_failure(errc::bad_input,
                          "{}: the optimizer {} has {} buffers of state, the checkpoint's run had one with {}",
                          description(), optimizer, parts.size() - 1, before.size() - 1);
    parts.erase(parts.begin());
    return restore_from(parts);
  }

  std::vector<table_array> arrays() {
    std::vector<table_array> result = {{"weight", table_.options().dtype, table_.dim(), table_.weight_bytes()}};
    for (const auto& [numbers, columns] : table_.state())
      result.push_back(
          {fmt::format("state.{}", result.size() - 1), dtype::f32, columns, std::as_writable_bytes(numbers)});
    return result;
  }

  /// A gradient's uploads to the device, except for bags left there by its lookup.
  struct upload {
    kernels::uploaded_bags bags;
    kernels::uploaded_array<float> grad;
  };
  bag_cache looked_up_;
  std::weak_ptr<const model::table_batch::lookup> begun_;  ///< the last lookup, until it is answered
  std::vector<upload> uploads_;
  bool is_chosen_ = false;                     ///< `set_optimizer` has chosen the optimizer
  std::optional<model::checkpoint> restored_;  ///< the weights' source
  model::sparse_reduction reduce_;
  float scale_ = 1;
  std::vector<model::embedding_bag::contribution> contributions_;
  std::vector<msg::tensor_buffer> decoded_;
  std::shared_ptr<kept_table> kept_;  ///< for `begin_save`
  std::weak_ptr<kept_table> in_use_;  ///< until it is written
  std::shared_ptr<const std::atomic<bool>> has_gone_;
  model::embedding_bag table_;  // declared last: destroyed first, once its stream has passed
};

}  // namespace

caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(const msg::instantiate& order,
                                                                        kernels::device& where,
                                                                        std::shared_ptr<model::table_batch> batch) {
  const auto read = read_embedding_bag(order);
  if (!read) return read.error();
  const auto& [options, reduce] = *read;
  if (auto wrong = check_place(options, where)) return wrong;
  const std::uint64_t steps_ahead = model::lookups_ahead(order.staleness);
  const std::uint64_t lookups = std::uint64_t{order.trainers} * (order.accumulate + steps_ahead + 1);
  if (batch) return std::make_unique<remote_embedding_bag>(options, reduce, std::move(batch), lookups);
  return std::make_unique<remote_embedding_bag>(options, reduce, where, lookups);
}

}  // namespace troupe::actors

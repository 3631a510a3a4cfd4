#include "troupe/runtime/remote_table.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "troupe/error.hpp"
#include "troupe/runtime/module_plans.hpp"

namespace troupe::runtime {

remote_table::remote_table(reference_ptr of) : reference_(std::move(of)) {
  if (reference_ == nullptr) throw error(error_kind::input, "embedding_bag: a handle of no module");
  const nn::embedding_bag::options options = table_of(reference_->what().details);
  spec_.tables = {{options.num_embeddings, options.embedding_dim, static_cast<kernels::pooling>(options.mode), false}};
  wire_ = options.wire_dtype;
  split_ = options.split;
}

void remote_table::check_lookup(const char* method, const model::bags& wanted) const {
  const auto refuse = [&](const std::string& why) {
    throw error(error_kind::input, fmt::format("{}: {}", reference_->description(method), why));
  };
  if (wanted.offsets.empty()) refuse("a lookup of no bags: offsets is empty");
  const auto wrong = model::check_bags(spec_.tables.front(), wanted, wanted.offsets.size());
  if (!wrong) return;
  const auto fault = kernels::check_bags(wanted, spec_.tables.front().rows);
  refuse(fmt::format("{}: {}", fault.what == kernels::bags_fault::kind::index ? "indices" : "offsets", *wrong));
}

std::string lookup::spoilt() const {
  const std::string where = where_spoilt(output);
  return where.empty() ? ""
                       : fmt::format("the output of {} {}: its rows are so; look at what was loaded into it, or {}",
                                     table_->reference()->description(), where, spoilt_advice);
}

actors::sparse_client::context table_client::prepare(std::shared_ptr<const model::batch> samples) const {
  if (spent->empty()) return client.prepare(1, std::move(samples));
  auto made = client.prepare(1, std::move(samples), std::move(spent->back()));
  spent->pop_back();
  return made;
}

caf::expected<tensor> pooled_rows(const actors::sparse_client& by, actors::sparse_client::context& of,
                                  std::size_t dim) {
  kernels::stream& host = kernels::host_stream();
  actors::network_input pooled;
  pooled.resize(host, of.samples->size, dim);
  if (caf::error wrong = by.pool(of, host, pooled)) return wrong;
  return tensor({of.samples->size, dim}, dtype::f32, pooled.owner());
}

lookup::~lookup() {
  if (spent_->size() == spent_->capacity()) return;
  asked_.clear();
  spent_->push_back(std::move(asked_));
}

std::vector<std::vector<msg::bag_gradient>> lookup::gradients() const {
  if (grad.count() == 0) return {};
  return client_.gradients(asked_, actors::input_gradient(grad.owner()), nullptr);
}

}  // namespace troupe::runtime

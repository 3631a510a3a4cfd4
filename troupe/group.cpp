#include "troupe/group.hpp"

#include "troupe/runtime/communicator.hpp"

namespace troupe {

using runtime::collective_kind;

std::uint32_t group::rank() const { return calls_->me; }
std::uint32_t group::size() const { return static_cast<std::uint32_t>(calls_->name.members.size()); }

group group::subgroup(const std::vector<std::uint32_t>& ranks) const {
  return {calls_->owner.subgroup(*calls_, ranks), deadline_};
}

future<tensor> group::all_reduce(const tensor& x, reduce_op how, place at) const {
  return calls_->owner.call<tensor>(*calls_, {collective_kind::all_reduce, how, 0, x}, {deadline_, at});
}
future<std::vector<tensor>> group::all_gather(const tensor& x, place at) const {
  return calls_->owner.call<std::vector<tensor>>(*calls_, {.kind = collective_kind::all_gather, .input = x},
                                                 {deadline_, at});
}
future<tensor> group::reduce_scatter(const tensor& x, reduce_op how, place at) const {
  return calls_->owner.call<tensor>(*calls_, {collective_kind::reduce_scatter, how, 0, x}, {deadline_, at});
}
future<tensor> group::broadcast(const tensor& x, std::uint32_t root, place at) const {
  return calls_->owner.call<tensor>(*calls_, {collective_kind::broadcast, {}, root, x}, {deadline_, at});
}
future<std::vector<tensor>> group::gather(const tensor& x, std::uint32_t root, place at) const {
  return calls_->owner.call<std::vector<tensor>>(*calls_, {collective_kind::gather, {}, root, x}, {deadline_, at});
}
future<tensor> group::scatter(std::span<const tensor> parts, std::uint32_t root, place at) const {
  return calls_->owner.call<tensor>(*calls_, {collective_kind::scatter, {}, root, {}, {parts.begin(), parts.end()}},
                                    {deadline_, at});
}
future<> group::barrier(place at) const {
  return calls_->owner.call<void>(*calls_, {.kind = collective_kind::barrier}, {deadline_, at});
}

void group::send(const tensor& x, std::uint32_t to, std::uint32_t tag, place at) const {
  calls_->owner.send(*calls_, x, to, tag, at);
}
future<tensor> group::recv(std::uint32_t from, std::uint32_t tag, place at) const {
  return calls_->owner.receive(*calls_, from, tag, {deadline_, at});
}

}  // namespace troupe

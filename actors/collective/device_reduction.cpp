#include "actors/collective/device_reduction.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include "actors/common/device_tensor.hpp"
#include "base/mapped.hpp"

namespace troupe::actors {

device_reduction::device_reduction(const compute_devices& devices, std::span<const std::uint32_t> ranks)
    : devices_(devices) {
  for (const std::uint32_t rank : ranks) {
    kernels::device& where = devices_.of_trainer(rank);
    if (std::ranges::find(lanes_, &where, &lane::where) == lanes_.end())
      lanes_.push_back(
          {&where, {}, {}, where.make_stream(kernels::matmul_precision::f32, kernels::stream_priority::high)});
  }
}

void device_reduction::abandon() {
  *abandoned_ = true;
  if (!communicator_) return;
  std::thread([communicator = std::move(communicator_), lanes = std::move(lanes_)]() mutable {
    try {
      communicator->abort();
    } catch (const std::exception&) {
      // The run has already failed for another reason.
    }
  }).detach();
  lanes_.clear();
}

std::vector<std::string> device_reduction::uuids() const {
  return mapped(lanes_, [](const lane& one) { return one.where->uuid(); });
}

std::vector<int> device_reduction::numbers() const {
  return mapped(lanes_, [](const lane& one) { return one.where->number(); });
}

kernels::communicator_id device_reduction::make_id() { return kernels::cuda_backend().make_communicator_id(); }

void device_reduction::connect(const kernels::communicator_id& id, std::size_t first, std::size_t all) {
  connected_ = true;
  if (all == 1) return;
  const auto mine = mapped(lanes_, &lane::where);
  communicator_ = kernels::cuda_backend().connect(id, mine, static_cast<int>(first), static_cast<int>(all));
}

kernels::communicator::state device_reduction::poll() {
  if (!connected_) return kernels::communicator::state::busy;
  return communicator_ ? communicator_->poll() : kernels::communicator::state::ready;
}

std::size_t device_reduction::lane_of(std::uint32_t rank) const {
  return static_cast<std::size_t>(std::ranges::find(lanes_, &devices_.of_trainer(rank), &lane::where) - lanes_.begin());
}

void device_reduction::time_work(std::uint16_t what) {
  span_name_ = what;
  for (lane& one : lanes_) one.timer.start(*one.on);
}

void device_reduction::for_each_timer(std::uint64_t step, const std::function<void(kernels::stream_timer&)>& take) {
  for (lane& one : lanes_) {
    take(one.timer);
    one.timer.set_step(step);
  }
}

void device_reduction::launch(std::uint32_t bucket, std::span<const share> shares, std::uint64_t count) {
  std::vector<std::vector<const float*>> inputs(lanes_.size());
  for (const share& one : shares) {
    const std::size_t at = lane_of(one.rank);
    lanes_[at].on->wait(block_of(one.grad->bytes)->written());
    if (one.counts) inputs[at].push_back(one.grad->as<float>().data());
  }
  std::vector<float*> sums;
  std::vector<kernels::stream*> streams;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    kernels::device_array<float>& sum = lanes_[i].sums[bucket];
    sum.resize(*lanes_[i].on, count);
    sums.push_back(sum.data());
    streams.push_back(lanes_[i].on.get());
    lanes_[i].timer.begin(span_name_);
    if (inputs[i].empty())
      streams[i]->fill(count, 0.0F, sums[i]);
    else
      streams[i]->sum_in_rank_order(inputs[i], count, 1.0F, sums[i]);
  }
  if (communicator_) communicator_->all_reduce(sums, count, streams);
}

std::vector<msg::tensor> device_reduction::means(std::uint32_t bucket, std::span<const share> shares, float scale) {
  for (lane& one : lanes_) {
    one.on->multiply(one.sums.at(bucket).size(), scale, one.sums.at(bucket).data());
    one.timer.end();
  }
  std::vector<msg::tensor> all;
  for (const share& one : shares) {
    const lane& its = lanes_[lane_of(one.rank)];
    const kernels::device_array<float>& mean = its.sums.at(bucket);
    all.push_back(
        on_device({&its.on->device(), mean.size(), 1, {mean.data(), 1}, mean.owner()}, its.on->record(), abandoned_));
  }
  return all;
}

}  // namespace troupe::actors

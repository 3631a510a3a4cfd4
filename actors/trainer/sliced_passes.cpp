#include "actors/trainer/sliced_passes.hpp"

#include <algorithm>
#include <stdexcept>

#include "actors/common/failure.hpp"
#include "base/assert.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

void sliced_passes::run(std::uint64_t step, std::function<void()> work) {
  TROUPE_ASSERT(!is_waiting());
  step_ = step;
  if (at_.slices == 1) return work();
  work_ = std::make_unique<fiber>(std::move(work));
  resume();
}

void sliced_passes::resume() {
  work_->resume();
  if (work_->is_over()) work_.reset();
}

bool sliced_passes::is_complete() const {
  return std::ranges::none_of(shares_, [](const auto& of_slice) { return of_slice.empty(); });
}

caf::error sliced_passes::take(msg::partial_sum&& share) {
  if (share.rank < first_rank_ || share.rank - first_rank_ >= at_.slices)
    return make_failure(errc::wrong_context, "a partial sum of trainer {}, which has no slice of this stage",
                        share.rank);
  const std::uint32_t slice = share.rank - first_rank_;
  std::deque<msg::tensor>& queue = shares_[slice];
  // Before it has this slice's share of the current sum, a slice sends at most its share of the next one.
  if (slice == at_.slice || share.number != number_ + queue.size() || queue.size() > 1)
    return make_failure(errc::wrong_context, "a share of sum {} of slice {}, the next one is {}", share.number, slice,
                        number_ + queue.size());
  if (share.numbers.type != dtype::f32 || !share.numbers.consistent())
    return make_failure(errc::shape_mismatch, "a share of sum {} that is not a matrix of f32", share.number);
  queue.push_back(std::move(share.numbers));
  if (is_waiting() && is_complete()) resume();
  return {};
}

float* sliced_passes::share(std::size_t rows, std::size_t cols) {
  mine_ = msg::tensor_buffer(rows, cols);
  return mine_.data();
}

void sliced_passes::sum(float* to) {
  msg::tensor mine = std::move(mine_).freeze();
  const std::uint64_t rows = mine.rows;
  const std::uint64_t cols = mine.cols;
  send_(number_, mine);
  shares_[at_.slice].push_back(std::move(mine));
  if (!is_complete()) {
    using clock = std::chrono::steady_clock;
    const actor_trace::range waiting(trace_, trace::range_name::wait_for_slices, step_);
    const clock::time_point begin = clock::now();
    work_->leave();
    waited_ += std::chrono::duration<double>(clock::now() - begin).count();
  }
  std::vector<const float*> numbers;
  for (const auto& of_slice : shares_) {
    const msg::tensor& one = of_slice.front();
    if (one.rows != rows || one.cols != cols)
      throw std::runtime_error(
          fmt::format("sum {}: a share of {} x {} for one of {} x {}", number_, one.rows, one.cols, rows, cols));
    numbers.push_back(one.as<float>().data());
  }
  kernels::host_stream().sum_in_rank_order(numbers, rows * cols, 1, to);
  for (auto& of_slice : shares_) of_slice.pop_front();
  ++number_;
}

void sliced_passes::report_missing(std::uint64_t step, msg::actor_status& now) const {
  for (std::uint32_t slice = 0; slice < at_.slices; ++slice)
    if (shares_[slice].empty())
      now.waits.push_back({now.name, "a sum over the slices", step, fmt::format("trainer {}", first_rank_ + slice)});
}

}  // namespace troupe::actors

#include "actors/batches_ahead.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <thread>
#include <utility>

namespace troupe::actors {

std::shared_ptr<batch_threads> make_batch_threads(const batch_threads_wish& wish, std::size_t trainers) {
  const std::size_t needed = trainers * wish.sharers;
  const std::size_t cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const std::size_t count = wish.count.value_or(cores > needed ? (cores - needed) / wish.sharers : 0);
  if (count == 0 || trainers == 0) return nullptr;
  return std::make_shared<batch_threads>(count, trainers, wish.count.has_value());
}

batches_ahead::~batches_ahead() {
  for (const std::future<batch>& one : coming_) one.wait();
}

batches_ahead::batch batches_ahead::take(std::uint64_t step, std::uint64_t last) {
  if (ahead_ == 0) return make_(step);
  for (; !coming_.empty() && next_ != step; ++next_) {  // after a resume, or of another order than was expected
    coming_.front().wait();
    coming_.pop_front();
  }
  if (coming_.empty()) next_ = step;
  for (std::uint64_t wanted = next_ + coming_.size(); wanted <= std::min(last, step + ahead_); ++wanted) {
    std::packaged_task<batch()> task([this, wanted] { return make_(wanted); });
    coming_.push_back(task.get_future());
    boost::asio::post(threads_->pool(), std::move(task));
  }
  auto first = std::move(coming_.front());
  coming_.pop_front();
  ++next_;
  return first.get();
}

}  // namespace troupe::actors

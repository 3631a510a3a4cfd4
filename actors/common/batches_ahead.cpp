#include "actors/common/batches_ahead.hpp"

#include <boost/asio/post.hpp>
#include <thread>

#include "kernels/idle_threads.hpp"

namespace troupe::actors {

batch_threads::batch_threads(std::size_t own, std::size_t ahead) : ahead_(ahead) {
  if (own > 0) pool_.emplace(own);
}

void batch_threads::post(std::function<void()> make) {
  if (pool_)
    boost::asio::post(*pool_, std::move(make));
  else
    kernels::offer_to_idle(std::move(make));
}

std::size_t batches_made_ahead(const batch_threads_request& request, std::size_t trainers) {
  constexpr std::size_t unasked_max = 8;  // a batch may be 100 MB
  if (trainers == 0 || request.count == 0U) return 0;
  const auto shares = [](std::size_t count, std::size_t among) { return (count + among - 1) / among; };
  if (request.count) return shares(*request.count, trainers) + 1;
  const std::size_t cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  return std::min(shares(cores, trainers * request.sharers), unasked_max);
}

std::shared_ptr<batch_threads> make_batch_threads(const batch_threads_request& request, std::size_t trainers) {
  const std::size_t ahead = batches_made_ahead(request, trainers);
  return ahead > 0 ? std::make_shared<batch_threads>(request.count.value_or(0), ahead) : nullptr;
}

}  // namespace troupe::actors

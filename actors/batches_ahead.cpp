#include "actors/batches_ahead.hpp"

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

std::shared_ptr<batch_threads> make_batch_threads(const batch_threads_wish& wish, std::size_t trainers) {
  if (trainers == 0 || wish.count == 0U) return nullptr;
  const auto shares = [](std::size_t count, std::size_t among) { return (count + among - 1) / among; };
  if (wish.count) return std::make_shared<batch_threads>(*wish.count, shares(*wish.count, trainers) + 1);
  const std::size_t cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  return std::make_shared<batch_threads>(0, shares(cores, trainers * wish.sharers));
}

}  // namespace troupe::actors

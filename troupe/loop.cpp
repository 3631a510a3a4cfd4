#include "troupe/loop.hpp"

#include <exception>

#include "actors/common/batches_ahead.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

loop_place::loop_place(trainer_runtime& of) : runtime_(&of), done_(of.loops().open()) {}
loop_place::loop_place(trainer_runtime& of, std::uint64_t n) : runtime_(&of), done_(of.loops().open(n)) {}
loop_place::~loop_place() { std::uncaught_exceptions() > 0 ? runtime_->loops().leave() : runtime_->loops().close(); }
std::uint64_t loop_place::enter() {
  runtime_->loops().enter();
  return done_;
}
void loop_place::advance() {
  runtime_->loops().advance();
  runtime_->look_for_stop();
}

class prefetcher::batches : public actors::batches_ahead<std::shared_ptr<void>> {
 public:
  using batches_ahead::batches_ahead;
};

prefetcher::prefetcher(const trainer_runtime& of, std::uint64_t numbers, maker make) {
  auto makers = of.batch_makers();
  const std::size_t ahead = makers ? makers->ahead(numbers) : 0;
  batches_ = std::make_unique<batches>(std::move(makers), ahead, std::move(make));
}
prefetcher::~prefetcher() = default;
std::shared_ptr<void> prefetcher::take(std::uint64_t step, std::uint64_t last) { return batches_->take(step, last); }

}  // namespace troupe::runtime

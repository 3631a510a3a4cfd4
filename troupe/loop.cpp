#include "troupe/loop.hpp"

#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

loop_place::loop_place(trainer_runtime& of) : runtime_(&of), done_(of.loops().open()) {}
loop_place::~loop_place() { runtime_->loops().close(); }
void loop_place::advance() {
  runtime_->loops().advance();
  runtime_->look_for_stop();
}

}  // namespace troupe::runtime

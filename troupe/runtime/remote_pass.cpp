#include "troupe/runtime/remote_pass.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/error.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

future<tensor> remote_pass::begin(tape& in, const reference_ptr& receiver, std::chrono::milliseconds deadline,
                                  const tensor& input) {
  if (receiver == nullptr) throw error(error_kind::input, "forward: a handle of no module");
  if (in.is_training() && in.owner().rules().staleness > 0)
    throw error(error_kind::input,
                fmt::format("{}: a pass that trains, of a module on a server, needs consistency 'sync'; only tables do "
                            "with less",
                            receiver->description("forward")));
  in.finish_passed();
  caller& calls = in.owner().calls();
  const auto made = std::make_shared<remote_pass>(
      in, receiver, in.maker_of(input), in.owner().tables().step_of(receiver->server()), calls.next_made(), deadline);
  if (in.is_training() && made->source_ == nullptr) made->given_ = input;
  in.add({}, made);
  method_call order{.receiver = receiver, .method = "forward", .deadline = deadline, .step = made->step_};
  if (in.is_training()) {
    detail::pack(order.arguments, made->number_);
    detail::pack(order.arguments, in.next_key());
  } else {
    order.method = "infer";
    order.step = in.owner().tables().step_after_last(receiver->server());
  }
  detail::pack(order.arguments, input);
  auto answer = std::make_shared<promise<tensor>>();
  auto coming = answer->get_future();
  const bool trains = in.is_training();
  call(std::move(order), [answer, made, trains](detail::packed& result, const std::exception_ptr& thrown) {
    if (thrown) return answer->fail(thrown);
    try {
      detail::unpacker from(result);
      tensor numbers = from.next_tensor();
      if (trains) made->weight_ = detail::unpack<std::string>(from);
      answer->set(tape::with_numbers(*made, std::move(numbers)));
    } catch (...) {
      answer->fail(std::current_exception());
    }
  });
  return coming;
}

std::string remote_pass::spoilt() const {
  if (const std::string input = where_spoilt(given_); !input.empty())
    return fmt::format("the input of {} {}; {}", receiver_->description("forward"), input, given_spoilt);
  const std::string made = where_spoilt(output);
  if (made.empty()) return {};
  if (!weight_.empty()) return fmt::format("{}: {}", receiver_->description(), weight_);
  return fmt::format("{} makes of finite numbers an output that {}; {}", receiver_->description(), made, spoilt_advice);
}

void remote_pass::backward(tape& /*on*/) {
  given_ = {};
  method_call order{.receiver = receiver_, .method = "backward", .deadline = deadline_};
  order.step = step_;
  detail::pack(order.arguments, number_);
  detail::pack(order.arguments, source_ != nullptr);
  detail::pack(order.arguments, grad);
  // If the context is dropped meanwhile, so is this node, and the answer is ignored.
  call(std::move(order), [me = weak_from_this()](detail::packed& result, const std::exception_ptr& thrown) {
    const auto here = me.lock();
    if (!here) return;
    tape& in = here->in_;
    if (thrown) return in.fail(thrown);
    try {
      detail::unpacker from(result);
      if (here->source_ != nullptr) tape::give(*here->source_, from.next_tensor());
    } catch (...) {
      return in.fail(std::current_exception());
    }
    in.owner().calls().executor()->post_function([me] {  // passes that follow may wait
      if (const auto still_here = me.lock()) still_here->in_.proceed();
    });
  });
}

}  // namespace troupe::runtime

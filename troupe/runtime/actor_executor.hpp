// The tasks of an actor: a trainer's function, a client's, or methods of a server's objects. They run on the thread
// that the actor has at the moment, between two of its messages or as part of one.

#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "troupe/executor.hpp"

namespace troupe::runtime {

class caller;

class actor_executor final : public executor {
 public:
  actor_executor(caller& of, const caf::strong_actor_ptr& actor)
      : caller_(of), actor_(caf::actor_cast<caf::weak_actor_ptr>(actor)) {}

  /// What makes the actor's calls; gone if the actor is.
  caller& owner() const { return caller_; }

  void post(std::shared_ptr<runnable> what) override;
  /// The same. Thread: any.
  void post_function(std::function<void()> what);

  /// Runs `what` as part of the actor's current message, then all tasks that go on because of it.
  template <class F>
  void enter(F&& what) {
    if (current() == this) return what();
    const scope here(*this);
    what();
    drain();
  }

  /// The one whose task runs on the calling thread; null: none.
  static actor_executor* here() { return dynamic_cast<actor_executor*>(current()); }

 private:
  void drain();

  caller& caller_;
  caf::weak_actor_ptr actor_;
  std::deque<std::shared_ptr<runnable>> ready_;  ///< posted from the actor's own thread
};

}  // namespace troupe::runtime

// A simulated connection between two processes, with a `links::link` at each end. Each direction keeps its order; the
// delay of each frame is drawn.

#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/links/link.hpp"
#include "tests/simulation/events.hpp"

namespace troupe::simulation {

/// The properties of the network.
struct network_conditions {
  sim_duration least{10'000};
  sim_duration most{200'000};
  /// A process that is silent for this long counts as dead.
  std::chrono::milliseconds dead_after{5000};
};

class sim_connection;

class sim_link final : public links::link {
 public:
  sim_link(sim_connection& whole, std::size_t side, event_owner& home) : whole_(whole), side_(side), home_(home) {}

  void start(callbacks what) override;
  void send(std::uint8_t kind, std::vector<links::piece> body, bool more_follows) override;
  void flush() override {}
  void pause_reading(bool /*pause*/) override {}
  void close() override;
  std::uint64_t queued_bytes() const override { return 0; }
  const links::hello& peer() const override { return hello_; }
  const std::string& peer_certificate() const override { return certificate_; }
  links::endpoint local_address() const override { return {}; }
  links::endpoint remote_address() const override { return {}; }

  sim_connection& whole() const { return whole_; }
  std::size_t side() const { return side_; }
  event_owner& home() const { return home_; }
  /// Handles a frame as if it had arrived on this link. For a planted bug.
  void take(links::received_frame&& frame) {
    if (is_started_ && !is_over_) calls_.on_frame(std::move(frame));
  }
  bool is_over() const { return is_over_; }

 private:
  friend class sim_connection;

  sim_connection& whole_;
  const std::size_t side_;
  event_owner& home_;
  links::hello hello_;
  std::string certificate_;
  callbacks calls_;
  bool is_started_ = false;
  bool is_over_ = false;
};

/// Both ends and the data in between. Lives as long as the simulation.
class sim_connection {
 public:
  sim_connection(event_loop& events, const network_conditions& network, event_owner& here, event_owner& there)
      : events_(events), network_(network), ends_{make_end(0, here), make_end(1, there)} {}

  /// The end in the process that connected (0), or in the one that accepted (1).
  std::shared_ptr<sim_link> end(std::size_t side) const { return ends_[side]; }
  bool joins(const event_owner& one) const { return &ends_[0]->home() == &one || &ends_[1]->home() == &one; }
  bool joins(const event_owner& one, const event_owner& other) const { return joins(one) && joins(other); }
  bool is_over() const { return ends_[0]->is_over() && ends_[1]->is_over(); }

  /// Blocks both directions, except for some frames already sent. Both sides notice by the silence.
  void cut(model::random_sequence& random);
  /// `gone` has ended: the other side notices at once, or by its silence.
  void lost(const event_owner& gone, bool at_once, model::random_sequence& random);
  /// `quiet` is stopped: the other side notices if `still` holds after a while.
  void falls_silent(const event_owner& quiet, std::function<bool()> still);
  /// Passes frames for a closed end to `take`, instead of dropping them. For a planted bug.
  void when_closed(std::size_t side, std::function<void(links::received_frame&&)> take) {
    closed_[side] = std::move(take);
  }
  /// Delays everything by `by` until then.
  void slow_down(sim_duration by, sim_time until) {
    slower_by_ = by;
    slow_until_ = until;
  }

 private:
  friend class sim_link;

  struct item {
    std::optional<links::received_frame> frame;
    std::optional<std::string> lost;  ///< reason; null and no frame: goodbye
  };
  /// Data to one end.
  struct direction {
    std::deque<item> under_way;
    std::deque<item> arrived;  ///< before that end was started
    sim_time last;
    bool is_cut = false;
  };

  std::shared_ptr<sim_link> make_end(std::size_t side, event_owner& home) {
    return std::make_shared<sim_link>(*this, side, home);
  }
  void push(std::size_t to, item what, sim_duration time);
  void arrive(std::size_t to);
  void give(std::size_t to, item what);
  void end_by_silence(std::size_t to);
  sim_duration silence();

  event_loop& events_;
  const network_conditions& network_;
  std::shared_ptr<sim_link> ends_[2];
  direction to_[2];
  std::function<void(links::received_frame&&)> closed_[2];
  sim_duration slower_by_{0};
  sim_time slow_until_{};
};

}  // namespace troupe::simulation

// A synchronous run with known times: two servers, two trainers, one bucket.

#pragma once

#include <vector>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis {

/// Steps 1 to n, in which server 1 takes `apply_times[step - 1]` to apply, and server 0 takes 5 ms. With B the previous
/// step's commit and A server 1's time, in ms:
///
/// B        server 1 has applied, and pools for trainer 1 (1.0) while trainer 0's lookup is queued
/// B+1.0    rows for trainer 1 are sent (arrived 1.1, begun 1.1); server 1 pools for trainer 0 (1.0)
/// B+2.0    rows for trainer 0 are sent (arrived 2.1, begun 2.2); server 0's arrive earlier
/// B+16.1   trainer 1 has its gradients (forward/backward 15.0): arrived 16.6, handled 0.2; its lookup is parked (0.1)
/// B+22.2   trainer 0 has its gradients (forward/backward 20.0): arrived 22.7, so servers apply; its lookup follows
/// B+25.2   trainer 0 has its bucket (backward parameters 3.0): summed from 25.3 to 25.8, and back at 25.9
/// B+26.0   both trainers have done their step
/// B+22.7+A server 1 has applied: the commit, if A is more than 5 ms
class synchronous_run {
 public:
  explicit synchronous_run(const std::vector<trace::nanoseconds>& apply_times) {
    for (const trace::nanoseconds apply : apply_times) add_step(apply);
  }

  trace::made_recording made{2, 2};
  std::vector<trace::nanoseconds> commits = {trace::ms(100)};  ///< by step, from 0
  std::uint64_t rows_of_1 = 0;                                 ///< the last step's, from server 1 to trainers 0 and 1
  std::uint64_t rows_of_1_for_1 = 0;
  std::uint64_t gradient_of_0 = 0;  ///< the last step's, from trainer 0 to server 1
  std::uint64_t gradient_of_1 = 0;
  std::uint64_t lookup_of_0 = 0;  ///< for the step after the last, from trainer 0 to server 1
  std::uint64_t lookup_of_1 = 0;
  std::uint64_t reduce_of_0 = 0;
  std::uint64_t reduced_of_1 = 0;

 private:
  /// The times that a step's messages share.
  struct step_frame {
    std::uint64_t step;
    trace::nanoseconds begin;   ///< of the step
    trace::nanoseconds commit;  ///< of server 1

    trace::nanoseconds operator()(double ms) const { return begin + static_cast<trace::nanoseconds>(ms * 1e6 + 0.5); }
  };

  void add_step(trace::nanoseconds apply) {
    step_frame at{commits.size(), commits.back(), 0};
    at.commit = at(22.7) + apply;
    add_rows(at);
    add_gradients(at);
    add_bucket(at);
    commits.push_back(at.commit);
  }

  void add_rows(const step_frame& at) {
    for (const std::uint16_t t : {t0, t1}) {
      made.handled("rows", s0, t, {at.begin, at(0.1), at(0.1), at(0.2)},
                   {.step = at.step, .flags = flag::answer, .bytes = 1000});
    }
    const std::uint64_t rows1 =
        made.handled("rows", s1, t1, {at(1.0), at(1.1), at(1.1), at(19.1)},
                     {.step = at.step, .cause = lookup_of_1, .flags = flag::answer, .bytes = 1000});
    if (at.step > 1) made.released(s1, rows1, gradient_of_0, at(1.0));
    const std::uint64_t rows0 =
        made.handled("rows", s1, t0, {at(2.0), at(2.1), at(2.2), at(25.2)},
                     {.step = at.step, .cause = lookup_of_0, .flags = flag::answer, .bytes = 1000});
    made.range(t1, trace::range_name::forward_backward, at.step, at(1.1), at(16.1));
    made.range(t1, trace::range_name::backward_parameters, at.step, at(16.1), at(19.1));
    made.range(t0, trace::range_name::forward_backward, at.step, at(2.2), at(22.2));
    made.range(t0, trace::range_name::backward_parameters, at.step, at(22.2), at(25.2));
    rows_of_1 = rows0;
    rows_of_1_for_1 = rows1;
  }

  /// Gradients, and the lookups of the next step.
  void add_gradients(const step_frame& at) {
    const auto gradient = [&](std::uint16_t from, std::uint16_t to, double sent, double begin, trace::nanoseconds end) {
      return made.handled("gradient", from, to, {at(sent), at(sent + 0.5), at(begin), end},
                          {.step = at.step, .cause = from == t0 ? rows_of_1 : rows_of_1_for_1, .bytes = 500});
    };
    const auto lookup = [&](std::uint16_t from, double sent, trace::nanoseconds begin, trace::nanoseconds end,
                            std::uint8_t flags) {
      return made.handled(
          "lookup", from, s1, {at(sent), at(sent + 0.55), begin, end},
          {.step = at.step + 1, .cause = from == t0 ? rows_of_1 : rows_of_1_for_1, .flags = flags, .bytes = 100});
    };
    gradient(t1, s0, 16.1, 16.6, at(16.8));
    gradient_of_1 = gradient(t1, s1, 16.1, 16.6, at(16.8));
    lookup_of_1 = lookup(t1, 16.1, at(16.8), at(16.9), flag::request | flag::parked);
    gradient(t0, s0, 22.2, 22.7, at(27.7));
    made.range(s0, trace::range_name::apply, at.step, at(22.7), at(27.7));
    gradient_of_0 = gradient(t0, s1, 22.2, 22.7, at.commit + trace::ms(1));
    made.range(s1, trace::range_name::apply, at.step, at(22.7), at.commit);
    made.range(s1, trace::range_name::pool, at.step + 1, at.commit, at.commit + trace::ms(1));
    lookup_of_0 = lookup(t0, 22.2, at.commit + trace::ms(1), at.commit + trace::ms(2), flag::request);
    made.range(s1, trace::range_name::pool, at.step + 1, at.commit + trace::ms(1), at.commit + trace::ms(2));
  }

  void add_bucket(const step_frame& at) {
    const std::uint64_t reduce1 =
        made.handled("reduce", t1, group, {at(19.1), at(19.2), at(19.2), at(19.25)},
                     {.step = at.step, .cause = rows_of_1_for_1, .flags = flag::request | flag::parked, .bytes = 400});
    reduce_of_0 = made.handled("reduce", t0, group, {at(25.2), at(25.3), at(25.3), at(25.8)},
                               {.step = at.step, .cause = rows_of_1, .flags = flag::request, .bytes = 400});
    made.range(group, trace::range_name::sum, at.step, at(25.3), at(25.8));
    for (const std::uint16_t t : {t0, t1}) {
      const std::uint64_t reduced = made.handled(
          "reduced", group, t, {at(25.8), at(25.9), at(25.9), at(26.0)},
          {.step = at.step, .cause = t == t0 ? reduce_of_0 : reduce1, .flags = flag::answer, .bytes = 400});
      if (t == t1) made.released(group, reduced, reduce_of_0, at(25.8));
      reduced_of_1 = reduced;
      made.step(t, at.step, t == t0 ? at(2.2) : at(1.1), at(26.0));
    }
  }

  static constexpr std::uint16_t group = trace::made_recording::group;
  const std::uint16_t s0 = made.server(0), s1 = made.server(1), t0 = made.trainer(0), t1 = made.trainer(1);
};

}  // namespace troupe::analysis

#include "tests/page/made_run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/trace/made_recording.hpp"

namespace troupe::page {

namespace {

using namespace trace;

/// A message in flight to an actor.
struct letter {
  std::uint16_t from = 0;
  std::uint64_t sequence = 0;
  const char* type = "";
  std::uint64_t step = 0;
  std::uint64_t cause = 0;
  trace::nanoseconds sent = 0;
  trace::nanoseconds arrived = 0;
  std::uint32_t bytes = 0;
  std::uint8_t flags = 0;
  std::uint16_t aux = 0;
};

/// Plays the actors' parts, step by step: each actor handles its messages in order of arrival.
class play {
 public:
  explicit play(const made_run_options& how) : how_(how), run_(how.servers, how.trainers) {
    run_.edit().realtime_begin_ns = 1'790'000'000'000'000'000;
    for (std::uint16_t t = 0; t < how.trainers; ++t)
      for (std::uint16_t s = 0; s < how.servers; ++s)
        send(run_.trainer(t), run_.server(s),
             {.type = "lookup", .step = 1, .sent = trace::ms(1), .bytes = 4'000, .flags = flag::request});
  }

  trace::recording perform() {
    for (step_ = 1; step_ <= how_.steps; ++step_) {
      if (step_ == 1) serve_first();
      train();
      reduce();
      if (is_last() && how_.loses_gradient) lose();
      apply();
      metric(trace::metric_name::loss, 0.25 + 0.45 * std::exp(-static_cast<double>(step_) / 60) + 0.01 * wave(7));
      metric(trace::metric_name::samples_per_s, 180'000 + 9'000 * wave(11));
      if (step_ % 20 != 0) continue;
      if (how_.predicts_numbers) {
        metric(trace::metric_name::test_loss, 0.25);
        metric(trace::metric_name::rmse, 0.5);
      } else {
        metric(trace::metric_name::auc, 0.9 - 0.3 * std::exp(-static_cast<double>(step_) / 80));
      }
    }
    return finish();
  }

 private:
  bool is_last() const { return step_ == how_.steps; }
  double wave(double length) const { return std::sin(static_cast<double>(step_) * 6.28 / length); }
  /// Deterministic, but different in each step.
  trace::nanoseconds jitter(std::uint64_t salt, trace::nanoseconds most) const {
    std::uint64_t x = (step_ + 1) * 0x9e3779b97f4a7c15ULL + salt * 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 31;
    x *= 0x94d049bb133111ebULL;
    return static_cast<trace::nanoseconds>((x ^ x >> 29) % static_cast<std::uint64_t>(most));
  }

  std::uint64_t send(std::uint16_t from, std::uint16_t to, letter what) {
    what.from = from;
    what.sequence = ++sequences_[from];
    what.arrived = what.sent + trace::us(40) + jitter(what.sequence + from, trace::us(80));
    boxes_[to].push_back(what);
    return trace::made_id(from, what.sequence);
  }

  std::vector<letter> open_box(std::uint16_t of, std::string_view type) {
    std::vector<letter> taken;
    std::vector<letter>& box = boxes_[of];
    std::ranges::copy_if(box, std::back_inserter(taken), [&](const letter& x) { return x.type == type; });
    std::erase_if(box, [&](const letter& x) { return x.type == type; });
    std::ranges::stable_sort(taken, {}, &letter::arrived);
    return taken;
  }

  /// Returns when `actor` would begin to handle a message.
  trace::nanoseconds begin_of(std::uint16_t actor, const letter& what) { return std::max(free_[actor], what.arrived); }

  std::uint64_t handle(std::uint16_t actor, const letter& what, trace::nanoseconds work, std::uint8_t more_flags = 0) {
    const trace::nanoseconds begin = begin_of(actor, what);
    free_[actor] = begin + work;
    const auto process = [&](std::uint16_t of) { return run_.actor(of).process; };
    const std::uint8_t remote = process(actor) != process(what.from) ? flag::remote : 0;
    return run_.handled(what.type, what.from, actor, {what.sent, what.arrived, begin, begin + work},
                        {.step = what.step,
                         .cause = what.cause,
                         .flags = static_cast<std::uint8_t>(what.flags | more_flags | remote),
                         .bytes = what.bytes,
                         .aux = what.aux,
                         .sequence = what.sequence});
  }

  void serve_first() {
    for (std::uint16_t s = 0; s < how_.servers; ++s)
      for (const letter& lookup : open_box(run_.server(s), "lookup")) {
        const std::uint64_t id = handle(run_.server(s), lookup, trace::us(300));
        send(run_.server(s), lookup.from,
             {.type = "rows",
              .step = 1,
              .cause = id,
              .sent = free_[run_.server(s)],
              .bytes = 260'000,
              .flags = flag::answer});
      }
  }

  /// Trainers collect the rows, and compute once they have the last ones.
  void train() {
    for (std::uint16_t t = 0; t < how_.trainers; ++t) {
      const std::uint16_t me = run_.trainer(t);
      const std::vector<letter> rows = open_box(me, "rows");
      for (std::size_t i = 0; i + 1 < rows.size(); ++i) handle(me, rows[i], trace::us(60));
      const trace::nanoseconds begin = begin_of(me, rows.back());
      const trace::nanoseconds forward = trace::ms(6) + jitter(t, trace::ms(2));
      const trace::nanoseconds backward = trace::ms(3) + jitter(t + 50, trace::ms(1));
      step_begin_[t] = begin;
      const std::uint64_t id = handle(me, rows.back(), trace::us(100) + forward + trace::us(300) + backward);
      run_.range(me, trace::range_name::forward_backward, step_, begin + trace::us(50), begin + trace::us(50) + forward,
                 id);
      run_.range(me, trace::range_name::backward_parameters, step_, begin + trace::us(350) + forward,
                 begin + trace::us(350) + forward + backward, id);
      for (std::uint16_t s = 0; s < how_.servers; ++s)
        send(me, run_.server(s),
             {.type = "gradient",
              .step = step_,
              .cause = id,
              .sent = begin + trace::us(100) + forward,
              .bytes = 130'000,
              .aux = t});
      if (!is_last() || how_.loses_gradient)
        for (std::uint16_t s = 0; s < how_.servers; ++s)
          open_[me].push_back({send(me, run_.server(s),
                                    {.type = "lookup",
                                     .step = step_ + 1,
                                     .cause = id,
                                     .sent = begin + trace::us(200) + forward,
                                     .bytes = 4'000,
                                     .flags = flag::request}),
                               run_.type("lookup"), run_.server(s), step_ + 1, begin + trace::us(200) + forward});
      send(me, trace::made_recording::group,
           {.type = "reduce",
            .step = step_,
            .cause = id,
            .sent = begin + trace::us(350) + forward + backward,
            .bytes = 90'000,
            .flags = flag::request});
    }
  }

  void reduce() {
    const std::uint16_t group = trace::made_recording::group;
    const std::vector<letter> shares = open_box(group, "reduce");
    const trace::nanoseconds first = shares.front().sent;
    std::vector<std::uint64_t> asked;
    for (const letter& share : shares) {
      const bool last = &share == &shares.back();
      const trace::nanoseconds begin = begin_of(group, share);
      asked.push_back(handle(group, share, last ? trace::us(900) : trace::us(50), last ? 0 : flag::parked));
      if (!last) continue;
      run_.range(group, trace::range_name::sum, step_, begin + trace::us(20), begin + trace::us(880), asked.back());
      trace::event whole;
      whole.what = trace::kind::collective;
      whole.actor = group;
      whole.step = step_;
      whole.id = step_;
      whole.sent = first;
      whole.begin = whole.arrived = begin;
      whole.end = begin + trace::us(890);
      run_.add(whole);
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const std::uint64_t id = send(group, shares[i].from,
                                    {.type = "reduced",
                                     .step = step_,
                                     .cause = asked[i],
                                     .sent = free_[group],
                                     .bytes = 90'000,
                                     .flags = flag::answer});
      if (i + 1 < shares.size()) run_.released(group, id, asked.back(), free_[group]);
    }
    for (std::uint16_t t = 0; t < how_.trainers; ++t) {
      const std::uint16_t me = run_.trainer(t);
      for (const letter& sum : open_box(me, "reduced")) handle(me, sum, trace::us(200));
      run_.step(me, step_, step_begin_[t], free_[me]);
    }
  }

  /// Servers collect the gradients, apply them once they have the last one, and answer the lookups that waited for
  /// that.
  void apply() {
    for (std::uint16_t s = 0; s < how_.servers; ++s) {
      const std::uint16_t me = run_.server(s);
      std::vector<letter> box = open_box(me, "gradient");
      for (const letter& lookup : open_box(me, "lookup")) box.push_back(lookup);
      std::ranges::stable_sort(box, {}, &letter::arrived);
      std::uint16_t gradients = 0;
      std::vector<std::pair<letter, std::uint64_t>> parked;
      for (const letter& one : box) {
        if (one.type == std::string_view("lookup") && gradients < how_.trainers) {
          parked.emplace_back(one, handle(me, one, trace::us(30), flag::parked));
        } else if (one.type == std::string_view("lookup")) {
          answer(me, one, handle(me, one, trace::us(400)));
        } else if (++gradients < how_.trainers) {
          handle(me, one, trace::us(120));
        } else {
          apply_last(me, s, one, parked);
          parked.clear();
        }
      }
    }
  }

  void apply_last(std::uint16_t me, std::uint16_t s, const letter& last,
                  const std::vector<std::pair<letter, std::uint64_t>>& parked) {
    const bool slow = s == 1 && step_ >= how_.slow_from && step_ <= how_.slow_to;
    const trace::nanoseconds work = trace::ms(4) + jitter(s + 90, trace::us(700)) + (slow ? trace::ms(50) : 0);
    const trace::nanoseconds begin = begin_of(me, last);
    const std::uint64_t id =
        handle(me, last, work + trace::us(200) + trace::us(300) * static_cast<trace::nanoseconds>(parked.size()));
    run_.range(me, trace::range_name::apply, step_, begin + trace::us(100), begin + trace::us(100) + work, id);
    trace::nanoseconds when = begin + trace::us(150) + work;
    for (const auto& [lookup, asked] : parked) {
      run_.range(me, trace::range_name::pool, step_ + 1, when, when + trace::us(280), id);
      when += trace::us(300);
      run_.released(me, answer(me, lookup, asked, when), id, when);
    }
  }

  std::uint64_t answer(std::uint16_t me, const letter& lookup, std::uint64_t asked, trace::nanoseconds when = -1) {
    std::erase_if(open_[lookup.from],
                  [&](const auto& x) { return x.id == trace::made_id(lookup.from, lookup.sequence); });
    return send(me, lookup.from,
                {.type = "rows",
                 .step = lookup.step,
                 .cause = asked,
                 .sent = when < 0 ? free_[me] : when,
                 .bytes = 260'000,
                 .flags = flag::answer});
  }

  void lose() {
    std::vector<letter>& box = boxes_[run_.server(0)];
    std::erase_if(box,
                  [&](const letter& x) { return x.from == run_.trainer(1) && x.type == std::string_view("gradient"); });
  }

  void metric(trace::metric_name what, double value) {
    trace::event e;
    e.what = trace::kind::metric;
    e.actor = run_.trainer(0);
    e.type = static_cast<std::uint16_t>(what);
    e.step = step_;
    e.begin = e.end = e.sent = e.arrived = free_[e.actor];
    e.raw = std::bit_cast<std::uint64_t>(value);
    run_.add(e);
  }

  /// Adds the contents of the last steps' gradients; one number is NaN.
  void add_contents() {
    for (const trace::event& e : run_.done().events) {
      if (e.what != trace::kind::handled || run_.edit().type_name(e.type) != "gradient" || e.step + 2 < how_.steps)
        continue;
      std::vector<float> numbers(64 * 16);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = i % 5 == 0 ? 0.0F : std::sin(static_cast<float>(i + e.step)) / 100;
      numbers[3] = std::numeric_limits<float>::quiet_NaN();
      trace::content held{
          .id = e.id, .actor = e.actor, .type = e.type, .fields_digest = e.id * 31, .parts = {}, .fields = ""};
      held.parts.push_back({"tables[0].grad", "float32", 64, 16, e.id * 0x9e3779b97f4a7c15ULL,
                            std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4)});
      held.parts.push_back({"tables[0].indices", "int64", 64, 1, e.id * 0x94d049bb133111ebULL, ""});
      run_.edit().contents.push_back(std::move(held));
    }
  }

  trace::recording finish() {
    add_contents();
    trace::recording done = run_.done();
    for (std::size_t i = 0; i < done.processes.size(); ++i) {
      done.processes[i].host = how_.has_processes ? "host-" + std::to_string(i / 3) : "host-0";
      done.processes[i].pid = static_cast<std::uint32_t>(4100 + i);
      done.processes[i].node = static_cast<std::uint32_t>(i);
      done.processes[i].end = how_.loses_gradient ? trace::ending::none : trace::ending::clean;
      done.processes[i].metadata = {{"mode", "ring"}, {"command", "troupe train --steps 100"}};
    }
    for (trace::actor_state& one : done.actors) {
      one.alive = how_.loses_gradient;
      one.step = how_.steps;
      one.last_sent = sequences_[one.actor];
      one.open = open_[one.actor];
    }
    for (const trace::event& e : done.events)
      if (e.what == trace::kind::handled)
        ++std::ranges::find(done.actors, e.actor, &trace::actor_state::actor)->handled;
    if (how_.has_odd_names) {
      done.actors[3].name = "<script>alert(1)</script> 1";
      for (auto& [number, name] : done.types)
        if (name == "lookup") name = "<img src=x onerror=alert(2)>";
    }
    return done;
  }

  friend trace::recording troupe::page::make_run(const made_run_options& how);
  made_run_options how_;
  trace::made_recording run_;
  std::uint64_t step_ = 0;
  std::map<std::uint16_t, std::vector<letter>> boxes_;
  std::map<std::uint16_t, trace::nanoseconds> free_;
  std::map<std::uint16_t, std::uint64_t> sequences_;
  std::map<std::uint16_t, trace::nanoseconds> step_begin_;
  std::map<std::uint16_t, std::vector<trace::actor_state::request>> open_;
};

}  // namespace

trace::recording make_run(const made_run_options& how) {
  play all(how);
  if (how.has_processes) {
    std::uint32_t process = 0;
    for (std::uint16_t s = 0; s < how.servers; ++s)
      all.run_.actor(all.run_.server(s), "server " + std::to_string(s), ++process);
    for (std::uint16_t t = 0; t < how.trainers; ++t)
      all.run_.actor(all.run_.trainer(t), "trainer " + std::to_string(t), ++process);
  }
  return all.perform();
}

std::uint64_t messages_per_step(const made_run_options& how) {
  return std::uint64_t{how.trainers} * (3 * how.servers + 2);
}

}  // namespace troupe::page

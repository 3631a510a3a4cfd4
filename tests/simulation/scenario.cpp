#include "tests/simulation/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/random.hpp"

namespace troupe::simulation {
namespace {

struct small_job {
  std::uint32_t servers;
  std::uint32_t trainers;
  std::uint64_t checkpoint_every;
  std::vector<model::setting> settings;
};

std::vector<model::setting> synthetic(std::vector<model::setting> more) {
  std::vector<model::setting> all = {{"data", "synthetic"}, {"tables", "2"}, {"rows", "40"},      {"dim", "4"},
                                     {"bag", "2"},          {"hidden", "6"}, {"batch-size", "4"}, {"eval-every", "0"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const std::vector<small_job>& jobs() {
  static const std::vector<small_job> all = {
      {2, 2, 5, synthetic({{"steps", "24"}})},
      {2, 3, 4, {{"data", "tutorial"}, {"steps", "25"}, {"seed", "3"}}},
      {2, 2, 6,
       synthetic(
           {{"steps", "20"}, {"sparse-optimizer", "adagrad"}, {"dense-optimizer", "adam"}, {"clip-norm", "0.5"}})},
      {1, 2, 4, synthetic({{"steps", "24"}, {"accumulate", "2"}, {"sparse-optimizer", "sgd:momentum=0.9"}})},
      {2, 3, 0, synthetic({{"steps", "12"}, {"wire-dtype", "f16"}})},
      {3, 2, 7,
       synthetic(
           {{"steps", "21"}, {"tables", "3"}, {"table-split", "columns"}, {"sparse-reduce", "sum"}, {"nan", "skip"}})},
      // One epoch, and the test rows at its end.
      {2, 2, 25, synthetic({{"steps", "100"}, {"batch-size", "2"}, {"eval-every", "1"}})},
      // Trainers join and leave; the last membership fills all trainer places.
      {2, 3, 5, synthetic({{"steps", "28"}, {"elastic", "1:3"}, {"memberships", "0:2,6:3,13:1,20:3"}})},
      {1, 3, 9,
       synthetic({{"epochs", "1"},
                  {"batch-size", "2"},
                  {"eval-every", "1"},
                  {"elastic", "1:3"},
                  {"elastic-batch", "rank"},
                  {"memberships", "0:3,20:2,40:3"}})},
  };
  return all;
}

std::string place_name(place_number place, std::uint32_t servers) {
  if (place == 0) return "the master";
  return place <= servers ? fmt::format("server {}", place - 1) : fmt::format("trainer {}", place - 1 - servers);
}

double ms(sim_duration time) { return static_cast<double>(time.count()) / 1e6; }

/// Draws a time between `least` and `most`, uniform in its base-2 logarithm.
sim_duration draw_time(model::random_sequence& random, std::int64_t least, unsigned doublings) {
  const auto shift = static_cast<unsigned>(random.below(doublings));
  const std::int64_t low = least << shift;
  return sim_duration(low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(low))));
}

fault_plan draw_fault(model::random_sequence& random, std::uint64_t steps, std::uint32_t places) {
  using enum fault_plan::kind;
  constexpr std::array kinds = {kill, kill, kill, cut, cut, stop, stop, stop, slow, disk, disk, power, power};
  fault_plan made;
  made.what = kinds.at(random.below(kinds.size()));
  made.at = random.below(steps);
  // The master's process is as likely as any other.
  made.place = static_cast<place_number>(random.below(places));
  made.other = static_cast<place_number>((made.place + 1 + random.below(places - 1)) % places);
  constexpr std::int64_t one_ms = 1'000'000;
  made.time = made.what == slow ? draw_time(random, one_ms / 4, 12) : draw_time(random, one_ms, 16);
  if (made.what == stop && random.below(3) > 0) {  // so that it wakes while the others work again
    made.time = std::chrono::minutes(1);
    made.steps = steps / 4 + random.below(steps);
  }
  made.skipped = random.below(60);
  made.count = random.below(2) == 0 ? 1 : 1 + random.below(80);
  made.key = random.bits();
  return made;
}

}  // namespace

std::string describe(const fault_plan& one, std::uint32_t servers) {
  const std::string who = place_name(one.place, servers);
  const auto args = [&]() -> std::string {
    switch (one.what) {
      case fault_plan::kind::kill:
        return fmt::format("{} is killed", who);
      case fault_plan::kind::cut:
        return fmt::format("the links between {} and {} are cut", who, place_name(one.other, servers));
      case fault_plan::kind::stop:
        return fmt::format("{} stops for {:.1f} ms{}", who, ms(one.time),
                           one.steps == UINT64_MAX ? "" : fmt::format(", at most {} steps", one.steps));
      case fault_plan::kind::slow:
        return fmt::format("the links of {} are slower by {:.1f} ms", who, ms(one.time));
      case fault_plan::kind::disk:
        return fmt::format("after {} calls that write, {} fail, for at most {:.1f} ms", one.skipped, one.count,
                           ms(one.time));
      case fault_plan::kind::power:
        break;
    }
    return "the power is cut";
  };
  return fmt::format("step {}: {}", one.at, args());
}

std::size_t job_count() { return jobs().size(); }

std::size_t job_of(std::uint64_t seed) { return model::mix(seed ^ 77) % jobs().size(); }

scenario without_faults(std::size_t job, std::uint64_t seed) {
  const small_job& from = jobs().at(job);
  scenario made{.seed = seed,
                .job = from.settings,
                .servers = from.servers,
                .trainers = from.trainers,
                .checkpoint_every = from.checkpoint_every};
  made.job.emplace_back("servers", std::to_string(from.servers));
  made.job.emplace_back("trainers", std::to_string(from.trainers));
  return made;
}

scenario draw_scenario(std::uint64_t seed, const std::vector<std::uint64_t>& steps_of) {
  const std::size_t job = job_of(seed);
  scenario made = without_faults(job, seed);
  model::random_sequence random(model::mix(seed ^ 0x5eed));
  constexpr std::int64_t us = 1'000;
  made.network.least = sim_duration(static_cast<std::int64_t>(1 + random.below(50)) * us);
  made.network.most = made.network.least + draw_time(random, 20 * us, 9);
  made.fills_places = random.below(3) > 0;
  if (!made.fills_places) made.rejoin_timeout = std::chrono::milliseconds(3000 + random.below(3000));
  // Most faults occur while an undisturbed run would still run; some while the run recovers from a fault.
  const std::uint64_t steps = steps_of.at(job) * 5 / 4;
  const std::uint64_t count = random.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    fault_plan one = draw_fault(random, steps, 1 + made.servers + made.trainers);
    if (i > 0 && random.below(4) == 0) one.at = made.faults.back().at + random.below(2) * random.below(100);
    made.faults.push_back(one);
  }
  std::ranges::stable_sort(made.faults, {}, &fault_plan::at);
  return made;
}

}  // namespace troupe::simulation

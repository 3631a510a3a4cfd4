#include "tests/simulation/sim_clock.hpp"

#include <atomic>
#include <random>

#include "base/assert.hpp"
#include "model/random.hpp"

namespace troupe::simulation {
namespace {

constexpr std::int64_t begin_ns = 3'600'000'000'000;

std::atomic<bool> simulated = false;
std::atomic<std::int64_t> now_ns = 0;
std::uint64_t chance_key = 0;
std::uint64_t drawn = 0;

}  // namespace

sim_clock::sim_clock(std::uint64_t seed) {
  TROUPE_ASSERT(!simulated);
  chance_key = model::mix(seed);
  drawn = 0;
  now_ns = begin_ns;
  simulated = true;
}

sim_clock::~sim_clock() { simulated = false; }

sim_time sim_clock::now() const { return sim_time(sim_duration(now_ns.load())); }

void sim_clock::advance_to(sim_time when) {
  TROUPE_ASSERT(when >= now());
  now_ns = when.time_since_epoch().count();
}

}  // namespace troupe::simulation

extern "C" {

// std::chrono::steady_clock::now() and std::random_device::_M_getval(), by their names in the library's ABI.
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
unsigned int __real__ZNSt13random_device9_M_getvalEv(std::random_device* self);

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  return troupe::simulation::simulated ? troupe::simulation::now_ns.load()
                                       : __real__ZNSt6chrono3_V212steady_clock3nowEv();
}

unsigned int __wrap__ZNSt13random_device9_M_getvalEv(std::random_device* self) {
  using namespace troupe::simulation;
  if (!simulated) return __real__ZNSt13random_device9_M_getvalEv(self);
  return static_cast<unsigned int>(troupe::model::random_bits(chance_key, drawn++));
}

}  // extern "C"

#include "actors/collective/device_collective.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "actors/common/device_tensor.hpp"
#include "actors/common/failure.hpp"
#include "base/host.hpp"

namespace troupe::actors {

namespace {

/// How long to poll for a launch before other actors get a turn.
constexpr std::chrono::microseconds moment{200};

/// Returns this host's name as NCCL distinguishes hosts; a user may override it.
std::string own_host() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  return host_name();
}

/// Returns the ranks of a process.
std::vector<std::uint32_t> ranks_of(const rank_layout& ranks, std::uint32_t process) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < ranks.ranks(); ++rank)
    if (ranks.process_of_rank[rank] == process) all.push_back(rank);
  return all;
}

}  // namespace

std::string trainers_of(const rank_layout& ranks, std::uint32_t process) {
  const std::vector<std::uint32_t> all = ranks_of(ranks, process);
  return fmt::format("trainer{} {}", all.size() == 1 ? "" : "s", fmt::join(all, ", "));
}

device_collective::device_collective(allreduce_group_state& group, const compute_devices& devices)
    : group_(group), ranks_(group.ranks()), reduction_(devices, ranks_of(ranks_, ranks_.me)) {
  if (group_.trace.is_on()) reduction_.time_work(static_cast<std::uint16_t>(trace::range_name::sum));
  introduced_.resize(ranks_.processes);
  introduced_[ranks_.me] = {{}, ranks_.me, own_host(), reduction_.uuids(), {}};
  if (ranks_.processes == 1) connect();
}

/// Aborts unfinished work: a stream that waits for the other devices would never continue.
device_collective::~device_collective() {
  try {
    forget_what_is_over();
    note_device_work(group_.step);
    if (front_is_launched_ || !running_.empty() || reduction_.poll() == kernels::communicator::state::failed)
      reduction_.abandon();
  } catch (const kernels::device_error&) {
    reduction_.abandon();
  }
}

caf::error device_collective::check(const msg::bucket_share& share) const {
  if (share.grad.rows == 0) return {};
  return make_failure(
      errc::bad_input,
      "trainer {} computes on the processor, others on CUDA devices; give all of them the same --device", share.rank);
}

// -- introductions ----------------------------------------------------------------------------------------------------

/// Sends the other groups the devices of this group's ranks, once, when all processes are known to be connected.
void device_collective::join() {
  if (ranks_.processes == 1 || !introduced_[ranks_.me].id.empty()) return;
  const kernels::communicator_id id = ranks_.me == 0 ? device_reduction::make_id() : kernels::communicator_id();
  introduced_[ranks_.me].id = msg::blob::own(id);
  for (std::uint32_t process = 0; process < ranks_.processes; ++process) {
    if (process == ranks_.me) continue;
    msg::group_devices mine = introduced_[ranks_.me];
    mine.head = group_.trace.next(group_.step, {});
    group_.self()->send(group_.groups()[process], std::move(mine));
  }
  connect();
}

caf::error device_collective::introduce(const msg::group_devices& theirs) {
  if (!introduced_[theirs.process].id.empty())
    return make_failure(errc::wrong_context, "devices of process {} twice", theirs.process);
  introduced_[theirs.process] = theirs;
  connect();
  return {};
}

/// Connects the devices of all processes once every process, including this one, has been introduced. Devices sum in
/// the order of their trainers' ranks; the processes' order is the order in which they happened to join.
void device_collective::connect() {
  const auto first_rank = [this](std::uint32_t process) {
    return std::ranges::find(ranks_.process_of_rank, process) - ranks_.process_of_rank.begin();
  };
  std::size_t first = 0;
  std::size_t all = 0;
  std::map<std::pair<std::string, std::string>, std::uint32_t> process_of;
  for (std::uint32_t process = 0; process < ranks_.processes; ++process) {
    const msg::group_devices& its = introduced_[process];
    if (ranks_.processes > 1 && its.id.empty()) return;
    if (first_rank(process) < first_rank(ranks_.me)) first += its.uuids.size();
    all += its.uuids.size();
    for (const std::string& uuid : its.uuids) {
      const auto [known, is_new] = process_of.try_emplace({its.host, uuid}, process);
      if (is_new) continue;
      group_.refuse(
          group_.step,
          make_failure(
              errc::bad_input,
              "{} and {}, of two processes on {}, compute on the same CUDA device, {}, which NCCL does not take; give "
              "each process devices of its own (--devices), put the trainers into one process, or use --device cpu",
              trainers_of(ranks_, known->second), trainers_of(ranks_, process), its.host, uuid));
      return;
    }
  }
  kernels::communicator_id id{};
  if (ranks_.processes > 1)
    std::copy_n(introduced_[0].id.data(), id.size(), id.begin());
  else if (all > 1)
    id = device_reduction::make_id();
  reduction_.connect(id, first, all);
  launch_ready();
}

// -- buckets ----------------------------------------------------------------------------------------------------------

bool device_collective::sum(const bucket_id& id, group_bucket& /*all*/) {
  ready_.push_back(id);
  launch_ready();
  return false;
}

/// Launches the ready buckets. All processes use the same order, since every rank sends its buckets in that order.
void device_collective::launch_ready() {
  using state = kernels::communicator::state;
  while (!ready_.empty()) {
    const bucket_id id = ready_.front();
    const state now = reduction_.poll();
    if (now == state::failed) {
      group_.refuse(id.step, cause_of(reduction_.error()));
      return;
    }
    if (now == state::busy) {
      // NCCL usually accepts a launch within a moment; connecting takes longer.
      if (front_is_launched_ && std::chrono::steady_clock::now() - last_launch_ < moment) {
        std::this_thread::yield();
        continue;
      }
      return look_again();
    }
    group_bucket& all = group_.bucket(id);
    const std::vector<device_reduction::share> shares = local_shares(all);
    if (!std::exchange(front_is_launched_, true)) {
      const actor_trace::range working(group_.trace, trace::range_name::sum, id.step);
      note_device_work(id.step);
      reduction_.launch(id.bucket, shares, all.sum.count());
      last_launch_ = std::chrono::steady_clock::now();
      continue;
    }
    front_is_launched_ = false;
    ready_.pop_front();
    answer(id, all, shares);
  }
}

/// Records the finished sums; the next one belongs to `step`.
void device_collective::note_device_work(std::uint64_t step) {
  reduction_.for_each_timer(step, [this](kernels::stream_timer& one) { group_.trace.note_device_work(one); });
}

void device_collective::look_again() {
  constexpr std::chrono::milliseconds again{1};
  if (std::exchange(will_look_again_, true)) return;
  group_.self()->run_delayed(again, [this] {
    will_look_again_ = false;
    launch_ready();
  });
}

std::vector<device_reduction::share> device_collective::local_shares(const group_bucket& all) const {
  std::vector<device_reduction::share> shares;
  for (const std::uint32_t rank : ranks_of(ranks_, ranks_.me))
    shares.push_back({rank, &all.ranks[rank].grad, all.sum.batches_of(rank) > 0});
  return shares;
}

void device_collective::answer(const bucket_id& id, group_bucket& all,
                               const std::vector<device_reduction::share>& shares) {
  const std::uint64_t batches = all.sum.batches();
  const float scale = batches > 0 ? 1.0F / static_cast<float>(batches) : 1.0F;
  running_.push_back({id, group_.now(), reduction_.means(id.bucket, shares, scale)});
  const std::vector<msg::tensor>& means = running_.back().means;
  all.sum.summed_elsewhere();
  group_.finish(id, all, [&](std::uint32_t rank) -> const msg::tensor& {
    const auto place = std::ranges::find(shares, rank, &device_reduction::share::rank) - shares.begin();
    return means[static_cast<std::size_t>(place)];
  });
  // Only the timeout check uses finished collectives, so they are removed in batches.
  constexpr std::size_t many = 256;
  if (running_.size() > many) forget_what_is_over();
}

// -- deadlines --------------------------------------------------------------------------------------------------------

/// Asks every device, since a failed one reports its error.
void device_collective::forget_what_is_over() {
  const auto is_over = [](const running& one) {
    bool all = true;
    for (const msg::tensor& mean : one.means) all &= block_of(mean.bytes)->written().is_over();
    return all;
  };
  while (!running_.empty() && is_over(running_.front())) running_.pop_front();
}

/// Ends the group if an allreduce that every process has launched does not finish, or if the communicator has failed.
void device_collective::look_for_late() {
  forget_what_is_over();
  const bool failed = reduction_.poll() == kernels::communicator::state::failed;
  if (!failed && (running_.empty() || group_.now() - running_.front().begin < group_.timeout())) return;
  const bucket_id id = running_.empty() ? bucket_id{group_.step, 0} : running_.front().id;
  if (failed) {
    group_.refuse(id.step, cause_of(reduction_.error()));
    return;
  }
  std::vector<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < ranks_.ranks(); ++rank)
    if (!ranks_.is_local(rank)) others.push_back(rank);
  group_.refuse(
      id.step,
      make_failure(
          errc::device_failed,
          "the all-reduce of bucket {} has not ended on CUDA device{} {} within {} s, though all trainers are "
          "in it{}: a device or NCCL's connection hangs; NCCL_DEBUG=INFO shows more, nvidia-smi may show why{}",
          id.bucket, reduction_.numbers().size() == 1 ? "" : "s", fmt::join(reduction_.numbers(), ", "),
          static_cast<double>(group_.timeout().count()) / 1000,
          others.empty() ? "" : fmt::format(" (the others are trainers {})", fmt::join(others, ", ")),
          ranks_.processes > 1 ? "; --request-timeout allows more" : ""));
}

}  // namespace troupe::actors

// The allreduce group of one of several processes receives shares and sums of buckets with arbitrary content from the
// others, while its own ranks send correct shares: it must answer, wait or end, and never read or write outside a
// bucket.
//
// The first bytes of an input choose the processes and ranks; each further message is a kind and its fields (see
// input.hpp). Some buckets are so large that they are summed in slices; all their numbers are the same.

#include "actors/collective/allreduce_group.hpp"

#include <algorithm>

#include "tests/fuzz/actors.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::allreduce_group_target {

constexpr std::uint64_t run_number = 1;
constexpr std::size_t messages_max = 24;
/// Over 64 KiB, so two processes sum the bucket in slices, of 8224 and 8216 numbers.
constexpr std::uint64_t large = 16'440;
constexpr std::uint64_t large_slice = 8'224;

enum kind : std::uint8_t { reduce_kind, share_kind, sum_kind, kinds };

class others {
 public:
  explicit others(input from) : from_(from) {
    actors::group_layout layout;
    const std::uint32_t processes = 2 + from_.below(3);
    trainers_ = std::max(processes, 2 + from_.below(3));
    for (std::uint32_t rank = 0; rank < trainers_; ++rank) layout.process_of_rank.push_back(rank % processes);
    layout.me = from_.below(2);
    layout.groups.resize(processes);
    for (std::uint32_t one = 0; one < processes; ++one)
      if (one != layout.me)
        layout.groups[one] = actors_.spawn([](msg::allreduce_actor::pointer) {
          return msg::allreduce_actor::behavior_type{
              [](msg::reduce&) { return msg::reduced{}; }, [](msg::bucket_share&) {}, [](msg::bucket_sum&) {},
              [](msg::group_devices&) {}, [](const msg::actor_query&) { return msg::actor_status{}; }};
        });
    group_ = actors_.spawn(actors::allreduce_group, run_number, layout);
  }

  void talk() {
    for (std::size_t i = 0; i < messages_max && !from_.empty(); ++i) {
      send_next();
      run_all();
    }
  }

 private:
  /// The header of a message, mostly for one of two steps.
  msg::header next_head() {
    const std::uint8_t odd = from_.byte();
    return {
        odd >= 250 ? from_.count() : run_number, odd % 16 == 15 ? from_.count() : 1 + odd % 2, 9, 0, ++sequence_, 0};
  }

  std::uint32_t next_bucket() { return from_.byte() < 240 ? 0 : static_cast<std::uint32_t>(from_.count()); }
  std::uint32_t next_rank() {
    const std::uint8_t one = from_.byte();
    return one < 240 ? one % trainers_ : static_cast<std::uint32_t>(from_.count());
  }

  /// The number of elements of a bucket or of a part of one.
  std::uint64_t next_count() {
    const std::uint8_t one = from_.byte();
    switch (one % 16) {
      case 12:
        return large;
      case 13:
        return large_slice;
      case 14:
        return large - large_slice;
      case 15:
        return from_.count();
      default:
        return one % 16;
    }
  }

  /// A consistent column; requests beyond the largest real message are omitted.
  msg::tensor next_tensor() {
    const std::uint8_t odd = from_.byte();
    if (odd % 16 == 15) return {};
    const dtype type = odd >= 240 ? dtype::f64 : dtype::f32;
    const std::uint64_t count = std::min(next_count(), large);
    return {type, count, 1,
            msg::blob::own(
                std::vector<std::byte>(count * size_of(type), from_.take(1).empty() ? std::byte{0} : std::byte{0x3f}))};
  }

  void send_next() {
    const std::uint32_t what = from_.below(kinds);
    const msg::header head = next_head();
    const std::uint32_t bucket = next_bucket();
    if (what == sum_kind) {
      const std::uint64_t first = next_count();
      return caf::anon_send(group_, msg::bucket_sum{head, bucket, first, from_.below(8) == 7, next_tensor()});
    }
    const std::uint32_t rank = next_rank();
    const std::uint32_t batches = from_.below(3);
    const bool stop = from_.below(8) == 7;
    if (what == share_kind) {
      const std::uint64_t first = next_count();
      const std::uint64_t count = next_count();
      return caf::anon_send(group_, msg::bucket_share{head, rank, bucket, batches, stop, first, count, next_tensor()});
    }
    actors_.ask<msg::reduced>(group_, msg::reduce{head, rank, bucket, batches, stop, next_tensor()});
  }

  input from_;
  cast actors_;
  msg::allreduce_actor group_;
  std::uint32_t trainers_ = 0;
  std::uint64_t sequence_ = 0;
};

bytes of(std::initializer_list<int> numbers) {
  bytes all;
  for (const int one : numbers) all.push_back(static_cast<std::byte>(one));
  return all;
}

std::vector<std::pair<std::string, bytes>> seeds() {
  // processes, trainers, me; then kind, head, bucket, rank, batches, stop, and first and count of a share; the tensor
  constexpr int whole = 12;
  constexpr int front = 13;
  constexpr int back = 14;
  return {{"small", of({0, 0, 0, reduce_kind, 0, 0, 0, 1, 0, 0, 6, 1, share_kind, 0, 0, 1, 1, 0, 0, 6, 0, 6, 1})},
          {"small_zeros", of({0, 0, 0, share_kind, 0, 0, 1, 0, 7, 0, 6, 15, reduce_kind, 0, 0, 0, 1, 0, 0, 6, 1})},
          {"large", of({0, 0, 0, reduce_kind, 0,     0, 0,     1, 0,        0, whole, 1,     share_kind, 0,    0,
                        1, 1, 0, 0,           whole, 0, front, 1, sum_kind, 0, 0,     front, 0,          back, 1})},
          {"sum_first", of({0, 0, 0,     share_kind, 0,    0, 1,           1, 0, 0, whole, 0, front, 1,     sum_kind,
                            0, 0, front, 0,          back, 1, reduce_kind, 0, 0, 0, 1,     0, 0,     whole, 1})},
          {"three_processes",
           of({1,          2, 1, reduce_kind, 0, 0, 1, 1, 0, 0, 5, 1,          share_kind, 0, 0, 0, 1, 0, 0, 5, 0, 5, 1,
               share_kind, 0, 0, 2,           2, 0, 0, 5, 0, 5, 1, share_kind, 0,          0, 3, 1, 0, 0, 5, 0, 5, 1})},
          {"claims_4_gib_of_zeros", of({0, 0, 0, share_kind, 0, 0, 1, 0, 0, 0, 15, 252, 15})}};
}

void run(std::span<const std::byte> given) {
  the_system();
  others(input(given)).talk();
}

}  // namespace troupe::fuzz::allreduce_group_target

TROUPE_FUZZ_TARGET(allreduce_group)

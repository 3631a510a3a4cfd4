#include "troupe/runtime/network_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/digest.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

/// Returns the ranks first, first + step, ..., `count` of them.
std::vector<std::uint32_t> ranks_from(std::uint32_t first, std::uint32_t step, std::uint32_t count) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

/// Sends the numbers, if any, to the first part.
void send_flat(const group& by, const msg::tensor& numbers, std::uint32_t tag) {
  const auto flat = numbers.as<float>();
  if (!flat.empty()) by.send(tensor::of<float>(shape(flat.size()), flat), 0, tag, {});
}

std::size_t count_of(const model::part_tensors& part) {
  std::size_t count = 0;
  for (const model::tensor_place& one : part.parameters) count += one.count();
  return count;
}

/// Receives numbers of another part. Throws `error` unless they are `count` numbers of `type`.
task<tensor> received(group by, std::uint32_t from, std::uint32_t tag, std::size_t count, dtype type) {
  tensor sent = co_await by.recv(from, tag, {});
  if (sent.type() != type || !(sent.shape() == shape(count)))
    throw error(
        error_kind::input,
        fmt::format("part {} of a network has {} of {} in the end, and {} numbers of {} are expected of it; all "
                    "trainers make the same networks in the same order",
                    from, to_string(sent.shape()), name_of(sent.type()), count, name_of(type)));
  co_return sent;
}

}  // namespace

network_part::network_part(trainer_runtime& of, model::network_parts layout)
    : layout_(std::move(layout)),
      replica_number_(of.rank() / parts()),
      along_(trainer(of).group().subgroup(ranks_from(of.rank() - of.rank() % parts(), 1, parts()))),
      across_(trainer(of).group().subgroup(ranks_from(of.rank() % parts(), parts(), of.trainers() / parts()))) {}

task<> network_part::collect(actors::trained_parameters& mine, group last, std::uint32_t tag) {
  const msg::tensor parameters = mine.weights();
  const msg::tensor buffers = mine.buffers();
  if (part() > 0) {
    send_flat(last, parameters, tag);
    if (tensors().buffers.count > 0) send_flat(last, buffers, tag);
    const tensor digest = co_await received(last, 0, tag, 1, dtype::i64);
    whole_.digest = static_cast<std::uint64_t>(digest.as<std::int64_t>()[0]);
    co_return;
  }
  whole_.parameters.resize(layout_.parameters);
  whole_.buffers.resize(layout_.buffers);
  model::put_part(parameters.as<float>(), tensors(), whole_.parameters);
  std::ranges::copy(buffers.as<float>(), whole_.buffers.begin());
  for (std::uint32_t p = 1; p < parts(); ++p) {
    if (const std::size_t count = count_of(layout_.parts[p]); count > 0) {
      const tensor theirs = co_await received(last, p, tag, count, dtype::f32);
      model::put_part(theirs.as<float>(), layout_.parts[p], whole_.parameters);
    }
    if (const nn::parameter_range range = layout_.parts[p].buffers; range.count > 0) {
      const tensor theirs = co_await received(last, p, tag, range.count, dtype::f32);
      std::ranges::copy(theirs.as<float>(), whole_.buffers.begin() + static_cast<std::ptrdiff_t>(range.first));
    }
  }
  const auto bytes = std::as_bytes(std::span(whole_.parameters));
  whole_.digest = digest_of(bytes.data(), bytes.size());
  const auto digest = static_cast<std::int64_t>(whole_.digest);
  for (std::uint32_t p = 1; p < parts(); ++p)
    last.send(tensor::of<std::int64_t>(shape(1), std::span(&digest, 1)), p, tag, {});
}

}  // namespace troupe::runtime

#include "troupe/runtime/group_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "troupe/runtime/place.hpp"

namespace troupe::runtime {

namespace {

constexpr const char* reduce_names[] = {"sum", "mean", "min", "max"};

std::string ordinal(std::uint64_t number) {
  const bool is_teen = number / 10 % 10 == 1;
  const std::uint64_t last = is_teen ? 0 : number % 10;
  return fmt::format("{}{}", number, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

/// Names the trainers of a subgroup; empty for the group of all trainers.
std::string with_members(const group_calls& in) {
  if (in.name.instance == 0) return "";
  return fmt::format(" with trainer{} {}", in.name.members.size() == 1 ? "" : "s", fmt::join(in.name.members, ", "));
}

/// `WORDS (train.cpp:14)`.
std::string with_place(const group_call::called& call) { return call.text + in_brackets(call.place); }

/// `trainer 0 calls WORDS (train.cpp:14) as its 3rd collective`.
std::string member_text(const group_calls& in, std::uint64_t number, std::uint32_t member) {
  return fmt::format("trainer {} calls {} as its {} collective{}", in.name.members[member],
                     with_place(in.open.at(number).call.call_of(member)), ordinal(number), with_members(in));
}

std::string trainers(const std::vector<std::uint32_t>& ranks) {
  return fmt::format("trainer{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string tensor_text(const tensor& x) { return fmt::format("{} of {}", to_string(x.shape()), name_of(x.type())); }

}  // namespace

const char* name_of(collective_kind kind) {
  constexpr const char* names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                   "gather",     "scatter",    "barrier",        "meeting"};
  return names[static_cast<std::size_t>(kind)];
}

bool has_root(collective_kind kind) {
  return kind == collective_kind::broadcast || kind == collective_kind::gather || kind == collective_kind::scatter;
}

bool needs_input(const call_order& what, std::uint32_t me) {
  if (what.kind == collective_kind::broadcast) return what.root == me;
  return what.kind != collective_kind::scatter && what.kind != collective_kind::barrier;
}

std::string description_of(const call_order& what, const group_calls& in) {
  const char* const name = name_of(what.kind);
  const auto root = [&] { return what.root < in.name.members.size() ? in.name.members[what.root] : what.root; };
  switch (what.kind) {
    case collective_kind::all_reduce:
    case collective_kind::reduce_scatter:
      return fmt::format("{} {} {}", name, reduce_names[static_cast<std::size_t>(what.how)], tensor_text(what.input));
    case collective_kind::all_gather:
      return fmt::format("{} {}", name, tensor_text(what.input));
    case collective_kind::gather:
      return fmt::format("{} {} to trainer {}", name, tensor_text(what.input), root());
    case collective_kind::broadcast:
    case collective_kind::scatter:
      return fmt::format("{} from trainer {}", name, root());
    case collective_kind::meeting:
      return what.text;
    case collective_kind::barrier:
      break;
  }
  return name;
}

std::string call_text(const group_calls& in, std::uint64_t number) { return member_text(in, number, in.me); }

std::string disagreement(const group_calls& in, std::uint64_t number, std::uint32_t other) {
  return fmt::format("{}, trainer {} calls {}; all members of a group call the same, in the same order",
                     call_text(in, number), in.name.members[other], with_place(in.open.at(number).call.call_of(other)));
}

std::string lateness(const group_calls& in, std::uint64_t number,
                     const std::map<group_name, std::shared_ptr<group_calls>>& all) {
  const group_calls::under_way& one = in.open.at(number);
  std::vector<std::uint32_t> missing;
  std::vector<std::uint32_t> sums;
  for (std::uint32_t member = 0; member < in.name.members.size(); ++member) {
    if (!one.call.has_share(member)) missing.push_back(in.name.members[member]);
    if (one.call.lacks_sum(member)) sums.push_back(in.name.members[member]);
  }
  std::string text =
      fmt::format("{}, which {} {} within {} s", call_text(in, number), trainers(missing.empty() ? sums : missing),
                  missing.empty() ? "did not sum" : "did not call", static_cast<double>(one.deadline.count()) / 1000);
  // A trainer that has not called this collective may have called another one, which this trainer has not: name it.
  for (const auto& [name, other] : all)
    for (const auto& [at, call] : other->open) {
      if (call.call.is_called()) continue;
      for (std::uint32_t member = 0; member < name.members.size(); ++member)
        if (call.call.has_share(member) && std::ranges::find(missing, name.members[member]) != missing.end())
          return fmt::format("{}; {}", text, member_text(*other, at, member));
    }
  return text;
}

void check_tensor(const tensor& x, const std::string& text) {
  constexpr std::uint64_t bytes_max = msg::blob::max_bytes - (std::uint64_t{1} << 20);  // a message's limit
  if (x.owner() == nullptr) throw error(error_kind::input, fmt::format("{}: a tensor without numbers", text));
  if (const std::size_t bytes = x.bytes().size(); bytes > bytes_max)
    throw error(error_kind::input,
                fmt::format("{}: {} bytes, the limit is {}; give it in parts", text, bytes, bytes_max));
}

void check_partner(const group_calls& in, std::uint32_t partner, const std::string& text) {
  const std::size_t size = in.name.members.size();
  if (partner < size && partner != in.me) return;
  throw error(error_kind::input,
              partner == in.me ? fmt::format("{}: rank {} is this trainer itself", text, partner)
                               : fmt::format("{}: rank {}, the group has ranks 0 to {}", text, partner, size - 1));
}

std::string receipt_text(const group_calls& in, std::uint32_t from, std::uint32_t tag, const source_location& at) {
  return fmt::format("trainer {} waits for a tensor with tag {} of trainer {}{}", in.name.members[in.me], tag,
                     in.name.members[from], in_brackets(at));
}

error never_comes(const group_calls& in, std::uint32_t from, std::uint32_t tag, const source_location& at) {
  return {error_kind::input, receipt_text(in, from, tag, at) + ", whose function has returned"};
}

void refuse(const std::string& why) { throw std::runtime_error(why); }

}  // namespace troupe::runtime

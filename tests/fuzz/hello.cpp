// Hellos: a decoded hello must encode to the same bytes, and the comparison with our own must accept any.

#include "cluster/links/hello.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::hello_target {

/// Like that of `introduction`, with fewer messages.
const links::hello mine = {{"purpose", "control"},
                           {"session", "session"},
                           {"version", "0.1.0"},
                           {"instruction set", "AVX2"},
                           {"BLAS kernels", "Haswell"},
                           {"message troupe::blob", "0123456789abcdef"},
                           {"message troupe::header", "fedcba9876543210"}};

std::vector<std::pair<std::string, bytes>> seeds() {
  links::hello older = mine;
  older[2].second = "0.0.1";
  links::hello newer = mine;
  newer.emplace_back("message troupe::unheard_of", "0123456789abcdef");
  links::hello few(mine.begin(), mine.begin() + 4);
  return {{"empty", {}},
          {"of_a_data_link", links::encode({{"purpose", "data"}, {"run", "77"}, {"node", "3"}, {"incarnation", "1"}})},
          {"few_items", links::encode(few)},
          {"other_version", links::encode(older)},
          {"unknown_message", links::encode(newer)},
          {"same_build", links::encode(mine)}};
}

void run(std::span<const std::byte> given) {
  const auto all = given;
  const auto theirs = links::decode_hello(all);
  if (!theirs) return;
  const auto again = links::encode(*theirs);
  must(std::equal(again.begin(), again.end(), all.begin(), all.end()), "a hello is encoded as other bytes");
  links::find_item(*theirs, "purpose");
  const auto text = links::first_disagreement(mine, *theirs, "the peer");
  must(text || theirs->size() <= mine.size(), "a hello with more items agrees");
}

}  // namespace troupe::fuzz::hello_target

TROUPE_FUZZ_TARGET(hello)

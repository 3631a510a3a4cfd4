// Users' filters, patterns and message names: each is accepted or refused at once.

#include "tests/fuzz/target.hpp"
#include "trace/analysis/causality.hpp"
#include "trace/analysis/message_id.hpp"
#include "trace/record/filter.hpp"

namespace troupe::fuzz::trace_filter_target {

bytes bytes_of(std::string_view text) {
  const auto all = as_bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return {all.begin(), all.end()};
}

trace::recording small_recording() {
  trace::recording run;
  run.processes.resize(1);
  run.actors.resize(1);
  run.actors[0].actor = 2;
  run.actors[0].name = "server 0";
  run.events.resize(1);
  run.events[0].what = trace::kind::handled;
  run.events[0].id = std::uint64_t{2} << 48 | 7;
  return run;
}

std::vector<std::pair<std::string, bytes>> seeds() {
  return {{"filter", bytes_of("actor=server *,type=lookup,steps=10-20,count=1000\nserver 1")},
          {"one_step", bytes_of("steps=7\n")},
          {"stars", bytes_of("actor=*a*b*c*\nabcabcabcabcabcabcab")},
          {"message", bytes_of("\nserver 0 #7")},
          {"short_message", bytes_of("x\ns0:7")}};
}

void run(std::span<const std::byte> given) {
  const std::string_view all(reinterpret_cast<const char*>(given.data()), given.size());
  const std::size_t end = std::min(all.find('\n'), all.size());
  const std::string_view text = all.substr(0, end);
  const std::string_view name = all.substr(std::min(end + 1, all.size()));
  if (const auto filter = trace::parse_filter(text)) {
    must(filter->first_step <= filter->last_step, "a filter whose last step is before its first");
    filter->takes_actor(name);
    filter->takes_type(name);
  }
  static const trace::recording run = small_recording();
  static const analysis::causality index(run);
  if (const auto id = analysis::find_message(index, name)) must(*id == run.events[0].id, "a message that is not there");
}

}  // namespace troupe::fuzz::trace_filter_target

TROUPE_FUZZ_TARGET(trace_filter)

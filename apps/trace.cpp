// `troupe trace`: analyses of a recorded run, one in each line of the table below.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/subcommand.hpp"
#include "apps/trace_answers.hpp"
#include "base/mapped.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace troupe::apps {
namespace {

struct kind_of_question {
  const char* name;
  const char* arguments;  ///< positional arguments
  std::size_t fewest;     ///< required arguments
  const char* help;
  std::vector<std::string> options;  ///< besides --run and --json; of `analysis_options` below
  result<int> (*answer)(const question&);
};

struct option_of_analyses {
  const char* name;
  const char* value;  ///< null: a switch
  const char* meaning;
};

const std::vector<option_of_analyses> analysis_options = {
    {"port", "N", "serve: where the page listens (default: any port that is free)"},
    {"listen", "HOST", "serve: the address it listens on (default: 127.0.0.1)"},
    {"token-file", "FILE", "serve: what lets a browser in (default: the variable TROUPE_PAGE_TOKEN, else a new one)"},
    {"token", "T", "serve: the same, where all users of this machine can read it"},
    {"step", "K", "critical-path: of this step (default: of the slowest, and of all together)"},
    {"limit", "N", "rows of each list that are shown (default: 20)"},
    {"output", "FILE", "timeline: the file to write"},
    {"shiviz", nullptr, "timeline: as a log for ShiViz"},
    {"csv", nullptr, "timeline: as a table, a line for each event"},
    {"order", nullptr, "diff: messages that an actor handled in another order count wherever they are"},
    {"lines", "N", "tail: how many of what has been recorded before (default: 20)"},
    {"filter", "ITEMS", "tail: only these: actor=PATTERN,type=PATTERN,steps=A-B; ends after count=N"},
    {"no-follow", nullptr, "tail: do not wait for more"},
    {"actor", "NAME", "replay: only this server, trainer or allreduce group, from what --trace payload has kept"},
    {"debug", nullptr, "replay --actor: in gdb, which stops before each message"},
    {"timing", "PERCENT", "diff: medians of times that differ by more count (default: none do)"},
};

const std::vector<kind_of_question> analyses = {
    {"serve",
     "FILE|DIR...",
     1,
     "a page for a browser, of a finished or live run",
     {"port", "listen", "token-file", "token"},
     serve_page},
    {"summary",
     "FILE|DIR...",
     1,
     "what each actor did, what went where, what was slow and what got lost",
     {"limit"},
     summary},
    {"critical-path", "FILE|DIR...", 1, "why steps take as long as they do", {"step", "limit"}, critical_path},
    {"blocked", "FILE|DIR...", 1, "which actors wait on which at the end, or now, and what keeps them", {}, blocked},
    {"check", "FILE|DIR...", 1, "whether the run kept to what every run must keep to", {}, check},
    {"timeline",
     "FILE|DIR...",
     1,
     "the run for ui.perfetto.dev, ShiViz, or a spreadsheet",
     {"output", "shiviz", "csv"},
     timeline},
    {"why", "ID FILE|DIR...", 2, "the causes of a message, back to where its step begins", {"limit"}, why},
    {"cone", "ID FILE|DIR...", 2, "all that could have influenced a message", {"limit"}, cone},
    {"diff", "A B", 2, "where two runs begin to differ", {"limit", "order", "timing"}, diff},
    {"blame", "TABLE ROW FILE|DIR...", 3, "every gradient that touched a row of a table", {"limit"}, blame},
    {"replay",
     "FILE|DIR...",
     1,
     "the run again, in its recorded order, message by message",
     {"actor", "debug"},
     replay},
    {"tail", "FILE|DIR...", 1, "what happens, line by line, while it does", {"lines", "filter", "no-follow"}, tail},
};

result<int> trace_command(const CLI::App& app, const program_context& context) {
  const auto names = mapped<std::string>(analyses, &kind_of_question::name);
  const CLI::Option* name = app.get_option("ANALYSIS");
  if (name->count() == 0) return bad_input("troupe trace needs an analysis: {}", alternatives(names));
  const std::string& what = name->results().front();
  const auto chosen = std::ranges::find(analyses, what, &kind_of_question::name);
  if (chosen == analyses.end())
    return bad_input("troupe trace {}: must be {}; the nearest is {}", printable(what), alternatives(names),
                     nearest(what, names));
  for (const option_of_analyses& option : analysis_options) {
    const bool takes = std::ranges::find(chosen->options, option.name) != chosen->options.end();
    if (!takes && app.count("--" + std::string(option.name)) > 0)
      return bad_input("--{} does not apply to troupe trace {}", option.name, what);
  }
  const std::vector<std::string>& arguments = app.get_option("ARGUMENTS")->results();
  if (arguments.size() < chosen->fewest) return bad_input("usage: troupe trace {} {}", what, chosen->arguments);
  return chosen->answer({app, context.out, what, arguments});
}

}  // namespace

subcommand add_trace(CLI::App& program) {
  CLI::App* app = program.add_subcommand("trace", "ask a recorded run why it was slow, stuck, wrong or different");
  std::string help;
  for (const kind_of_question& one : analyses)
    help += fmt::format("{}{}: {}", help.empty() ? "" : "\n", one.name, one.help);
  app->add_option("ANALYSIS")->description(help);
  app->add_option("ARGUMENTS")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args()
      ->description(
          "FILE or DIR: what processes of the run have recorded, or folders of it\n"
          "ID: a message as in 'trainer 0 #417', trainer-0:417 or t0:417");
  for (const option_of_analyses& option : analysis_options)
    if (option.value == nullptr)
      add_switch(*app, option.name, option.meaning, "Analysis");
    else
      add_text_option(*app, option.name, option.value, option.meaning, "Analysis");
  add_text_option(*app, "run", "ID", "which run, if the files hold several", "Input");
  add_text_option(*app, "attempt", "K", "which attempt at a run that has lost processes (default: the newest)",
                  "Input");
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  app->footer(
      "Examples:\n"
      "  troupe train --trace full --trace-dir run\n"
      "  troupe trace summary run\n"
      "  troupe trace critical-path run --step 12\n"
      "  troupe trace why 'trainer 0 #417' run\n"
      "  troupe trace diff run other\n"
      "Exit codes: 0 done; 1 check, diff, replay: something is not kept, differs, or\n"
      "did not come the same; 2 FILE, DIR, ID or an option is wrong.");

  return {app, "", trace_command};
}

}  // namespace troupe::apps

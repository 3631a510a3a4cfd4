# awk -f page.awk -v program=PATH -v version=VERSION troupe.1.in: writes the manual page. Its subcommands and their options
# come from the program's own help, so the page has what the program has.

function escaped(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\\&" text : text
}

# Writes the help of one subcommand: a description, its usage, sections of entries, words and examples at the end.
function write_help(command, line, described, in_section, in_example) {
  while (((command " --help") | getline line) > 0) {
    if (line ~ /^Usage: /) {
      sub(/^Usage: /, "", line)
      print ".SS " escaped(line)
      print escaped(described) "."
    } else if (!described) {
      described = line
    } else if (line ~ /^[A-Z].*:$/) {
      in_section = line
      if (in_example) print ".fi\n.RE"
      in_example = line == "Examples:"
      if (line == "Options:") continue  # which has --help only
      print ".PP\n" (in_example ? escaped(line) "\n.RS\n.nf" : ".B " escaped(line))
    } else if (in_example && line ~ /^  /) {
      print escaped(substr(line, 3))
    } else if (line ~ /^  [^ ]/) {
      write_entry(line)
    } else if (line ~ /^   /) {
      sub(/^ +/, "", line)
      if (!skips) print (is_choice(line) ? ".br\n" : "") escaped(line)
    } else if (line != "") {
      if (in_example) print ".fi\n.RE"
      if (in_section) print ".PP"
      in_section = in_example = ""
      print escaped(line)
    }
  }
  if (in_example) print ".fi\n.RE"
  close(command " --help")
}

# Whether a line begins one of the meanings of an argument, as in "list: which checkpoints there are".
function is_choice(line) { return line ~ /^[A-Za-z][a-z-]*: / }

function write_entry(line, name) {
  skips = line ~ /^  -h,--help/
  if (skips) return
  name = line
  sub(/^  /, "", name)
  sub(/   *.*/, "", name)
  line = substr(line, length(name) + 3)
  sub(/^ +/, "", line)
  print ".TP\n.B " escaped(name)
  if (line != "") print escaped(line)
}

function write_subcommands(line, in_list, word, names, count, i) {
  while (((program " --help") | getline line) > 0) {
    if (line == "Subcommands:") in_list = 1
    else if (in_list && split(line, word, " ") > 1 && line ~ /^  [a-z]/) names[++count] = word[1]
    else if (in_list && line == "") in_list = 0
  }
  close(program " --help")
  for (i = 1; i <= count; ++i) write_help(program " " names[i])
  return count
}

/^@SUBCOMMANDS@$/ {
  if (!write_subcommands()) failed = 1
  next
}
{
  gsub(/@VERSION@/, version)
  print
}
END { exit failed }

#!/bin/sh
# next_word.sh [ROWS]: writes the rows of next_word.toml, as CSV: 8 tokens of a text that never ends, and the token after
# them. A token is its number in the vocabulary below. A sentence has 7, such as "cats hear dog and they run .": verbs and
# pronoun go with the subject. There are 64, all as likely, so that a token has log(64) / 7 = 0.594 nats.

awk -v rows="${1:-12000}" '
BEGIN {
  # cat dog cats dogs sees hears see hear and it they runs sleeps run sleep .
  print "w1,w2,w3,w4,w5,w6,w7,w8,next"
  for (place = 0; place < rows + 8; ++place) {
    if (place % 7 == 0) {
      state = (state + 1) * 16807 % 2147483647
      choice = int(state / 33554432)
      for (bit = 0; bit < 6; ++bit) { is[bit] = choice % 2; choice = int(choice / 2) }
      many = is[0]
      sentence[0] = 2 * many + is[1]
      sentence[1] = 4 + 2 * many + is[2]
      sentence[2] = is[3] + 2 * is[4]
      sentence[3] = 8
      sentence[4] = 9 + many
      sentence[5] = 11 + 2 * many + is[5]
      sentence[6] = 15
    }
    if (place >= 8) {
      for (i = 0; i < 8; ++i) printf "%d,", last[(place + i) % 8]
      print sentence[place % 7]
    }
    last[place % 8] = sentence[place % 7]
  }
}'

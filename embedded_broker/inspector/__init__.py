"""Inspector: what waits in a timer store, for when, and whether it is whole, without opening it.

Answers the questions of `rocketmq-py timers` about a directory that a real broker or ours wrote.
Nothing is recovered, repaired, locked or written: every byte stays as it is, so the directory of a
running broker can be read as well. Must not know: the broker, requests, terminals.

====================  ==========================================================
module                question
====================  ==========================================================
frozen_files          how is a store read without a chance to change it
reader                which files are there, and what do the small ones say
columns               in which order what waits is due, and where it lies
pending               which messages wait, and when is each of them due
sliced                the same for the files of the sliced engine
integrity             do wheel, timer log, queues and commit log agree
topic                 the same for records of the timer topic, without files
pages                 what waits, page by page, for programs that take it all
report                all of it, and what a running broker tells, as values
picture               the histogram as a PNG (extra `plot`)
====================  ==========================================================

The byte formats are those of `store/` and `timer/`, whose codecs are used here too.
"""

"""Usage from a topic of Kafka, by Structured Streaming, each record exactly once.

| module | content |
| --- | --- |
| connector | the package of Spark that reads topics, and its options |
| checkpoint | the folder in which a stream keeps its progress; refuses one that does not fit |
| message | records, parsed |
| seen | which records are read again, and which are late |
| batch | one batch: what it adds to the table, and the counts |
| failure | what is said of an error of Spark |
| run | the stream, from its start to its end |

Spark's own deduplication (`dropDuplicatesWithinWatermark`) leaves rows out without a word. Here a late record is
counted and in the quarantine, so that the ids of the records of the last minutes are kept beside Spark's offsets.
"""

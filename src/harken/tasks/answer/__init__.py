"""Question answering: facts and a question to an answer, by hops of attention over the facts."""

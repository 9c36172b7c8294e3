"""Text corpora: parallel, labelled, tagged, running text, questions."""

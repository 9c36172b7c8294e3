"""x"""
class Captioner:
    @classmethod
    def load(cls, *a): return cls()

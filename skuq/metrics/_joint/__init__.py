"""Scores of joint distributions of several targets."""

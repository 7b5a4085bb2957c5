"""Fakes of the seams: small working ones, no mocks."""

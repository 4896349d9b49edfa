"""Odd and damaged frames over real sockets: does the broker answer on, and forget the senders?"""
